# 4,000 sales of homes: a number, a city, a comment, area and age with missing values, and the price.
# With -v new=1 the script writes 500 homes without prices.
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
BEGIN {
  seed = new ? 29 : 23
  split("Rome,Oslo,Lima,Cairo,Kyoto,Quito", city, ","); split("0.9,1.6,0.6,0.5,1.4,0.4", level, ",")
  split("quiet street,needs repair,view of the sea,near the station,garden,top floor", comment, ",")
  print "sale,city,comment,area,age" (new ? "" : ",price")
  for (i = 0; i < (new ? 500 : 4000); i++) {
    c = 1 + int(6 * u()); r = 1 + int(6 * u()); area = 30 + 170 * u(); age = 80 * u()
    price = level[c] * (50 + 2 * area) - 0.4 * age - (r == 2) * 30 + (r == 3) * 25 + 20 * (u() + u() + u() - 1.5)
    if (new && i % 100 == 7) city_of = "Accra"; else city_of = city[c]
    printf "%d,%s,%s,%s,%s", 90000 + i * 37, city_of, u() < 0.1 ? "" : comment[r], u() < 0.05 ? "" : sprintf("%.1f", area), u() < 0.05 ? "" : int(age)
    printf new ? "\n" : ",%.1f\n", price
  }
}
