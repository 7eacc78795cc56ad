# 20,000 customers: a number, months as a customer, calls, money spent, and whether the customer left
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
BEGIN { seed = 11; print "customer,months,calls,spent,left"
  for (i = 0; i < 20000; i++) { months = 1 + int(60 * u()); calls = int(-3 * log(u())); spent = 20 + 80 * u()
    risk = -2.2 - 0.05 * months + 0.45 * calls - 0.03 * calls * calls + (spent > 80 ? 1.5 : 0)
    printf "%d,%d,%d,%.2f,%s\n", 10000 + i, months, calls, spent, (u() < 1 / (1 + exp(-risk))) ? "yes" : "no" } }
