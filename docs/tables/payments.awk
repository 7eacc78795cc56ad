# 30,000 payments: a number, amount, hour, distance, and 1 if the payment is fraud, otherwise 0
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
BEGIN { seed = 3; print "payment,amount,hour,distance,fraud"
  for (i = 0; i < 30000; i++) { fraud = u() < 0.004; hour = 14 + 4 * normal(); amount = 3 + 0.6 * normal(); far = 1 + 0.7 * normal()
    if (fraud) { hour = 3 + 2 * normal(); amount = amount + 1.5; far = far + 2 }
    printf "%d,%.2f,%.2f,%.2f,%d\n", 500000 + i, exp(amount), (hour + 24) % 24, exp(far), fraud } }
