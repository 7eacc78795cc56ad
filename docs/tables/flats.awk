# 400 flats to let: an id, the day of the advert, district, words of the advert, area, rooms, year of construction,
# rent per month, and whether the flat was let within a week. District, words, area, year and rent have missing values.
# With -v new=1 the script writes 20 later flats without rent and let.
function u() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
BEGIN {
  seed = new ? 41 : 37; n = new ? 20 : 400
  split("Harbour,Hill,Old Town,Riverside,Station", name, ","); split("1.15,1.3,1.2,1,0.8", level, ",")
  split("31,28,31,30,31,30,31,31,30,31,30,31", days, ",")
  split("quiet,balcony,bright,needs repair,furnished,pets welcome", words, ","); split("0.4,0.3,0.35,0.2,0.15,0.2", often, ",")
  split("10,45,20,-110,60,0", worth, ",")
  print "flat,listed,district,advert,area,rooms,built" (new ? "" : ",rent,let")
  for (i = 0; i < n; i++) {
    day = new ? 730 + i : int(730 * i / n); year = 2023 + int(day / 365); rest = day % 365
    for (month = 1; rest >= days[month]; month++) rest -= days[month]
    d = 1 + int(5 * u()); rooms = 1 + int(4.5 * u()); area = 14 + 17 * rooms + 14 * normal(); if (area < 15) area = 15 + 5 * u()
    built = 1890 + int(130 * u()); text = ""; extra = 0; bright = pets = 0
    for (w = 1; w <= 6; w++) if (u() < often[w]) { text = text (text == "" ? "" : ", ") words[w]; extra += worth[w]; bright += w == 3; pets += w == 6 }
    old = (built - 1955) / 40
    fair = level[d] * (180 + 9.5 * area) + 35 * (old * old - 1) + extra + 45 * year - 91000 + 20 * cos(6.283185307 * (month - 8) / 12)
    rent = fair + 60 * normal()
    soon = u() < 1 / (1 + exp(1 - (fair - rent) / 60 - 1.5 * bright - 1.5 * pets + 0.12 * (area - 50)))
    if (u() < 0.05) name_of = ""; else name_of = name[d]
    if (text ~ /,/) text = "\"" text "\""
    r = u(); s = u()
    printf "%d,%d-%02d-%02d,%s,%s,%s,%d,%s", 10000 + (i + 500 * new) * 7919 % 9973, year, month, rest + 1, name_of, text, r < 0.04 ? "" : sprintf("%.1f", area), rooms, s < 0.04 ? "" : s < 0.08 ? "?" : built
    if (!new) printf ",%s,%s", u() < 0.02 ? "" : sprintf("%.0f", rent), soon ? "yes" : "no"
    print ""
  }
}
