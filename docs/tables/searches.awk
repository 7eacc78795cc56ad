# 400 searches for a room, each in a city with its own price level. Each row is an offer: the search, price, stars, metres to
# the centre, and what the visitor did with the offer: 0 nothing, 1 looked at it, 2 began to book, 3 booked
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
BEGIN { seed = 29; print "search,price,stars,metres,went"
  for (q = 1; q <= 400; q++) { city = exp(4.5 + 0.5 * normal()); keen = 0.6 * normal(); n = 8 + int(u() * 30)
    for (i = 0; i < n; i++) { stars = 1 + int(u() * 5); metres = 300 * exp(normal()); price = city * exp(0.18 * stars - 0.1 * log(metres / 300) + 0.3 * normal())
      like = 0.6 * stars - 0.5 * log(metres / 300) - 2.2 * log(price / city) + keen + 0.6 * normal()
      printf "s%d,%.0f,%d,%.0f,%d\n", q, price, stars, metres, (like > 1) + (like > 2.2) + (like > 3.2) } } }
