# 240,000 homes: an id, a fold, area, age, rooms, position (north, east), and the price
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
BEGIN { seed = 7; print "id,fold,area,age,rooms,north,east,price"
  for (i = 0; i < 240000; i++) { area = 30 + 170 * u(); age = 80 * u(); rooms = 1 + int(area / 30 + 2 * u()); n = 10 * u() - 5; e = 10 * u() - 5
    price = 40 + 2.4 * area * exp(-(n * n + e * e) / 12) + 1.1 * area - 0.5 * age + 12 * cos(age / 12) + 4 * rooms + 20 * (u() + u() + u() - 1.5)
    printf "%d,%d,%.1f,%d,%d,%.3f,%.3f,%.1f\n", 700000 + i * 7919 % 240007, 10 * u(), area, age, rooms, n, e, price } }
