# 1,500 shops of three kinds: a number, the kind, area, number of people, sales per day, fraction of the sales in the evening,
# and metres to the next station
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
BEGIN { seed = 17; print "shop,kind,area,people,sales,evening,station"
  split("kiosk,grocer,hall", kind, ","); split("3.0,5.2,6.6", area, ","); split("0.42,0.25,0.15", evening, ",")
  for (i = 0; i < 1500; i++) { r = u(); k = 1 + (r > 0.4) + (r > 0.8); a = exp(area[k] + 0.3 * normal())
    people = 1 + int(a / 45 + u() * 2); sales = a * 14 * exp(0.25 * normal()) + 300
    far = (k == 1 ? 60 : k == 2 ? 400 : 900) * exp(0.5 * normal())
    printf "%d,%s,%.0f,%d,%.0f,%.3f,%.0f\n", 100 + i * 7, kind[k], a, people, sales, evening[k] + 0.05 * normal(), far } }
