# R, with RPostgreSQL and bit64.  It connects to where PGHOST, PGDATABASE and so on say.

suppressPackageStartupMessages({
  library(RPostgreSQL)
  library(bit64)
})

# What is checked, as TAP
ran <- failed <- 0
check <- function(name, passed, found = "") {
  ran <<- ran + 1
  cat(if (isTRUE(passed)) "ok" else "not ok", " ", ran, " - ", name, "\n", sep = "")
  if (!isTRUE(passed)) {
    failed <<- failed + 1
    cat("# found", format(found), "\n")
  }
}

cat("# version: RPostgreSQL ", format(packageVersion("RPostgreSQL")), ", bit64 ", format(packageVersion("bit64")),
    ", R ", format(getRversion()), "\n", sep = "")
con <- dbConnect(PostgreSQL(), host = Sys.getenv("PGHOST"), port = Sys.getenv("PGPORT"),
                 dbname = Sys.getenv("PGDATABASE"), user = Sys.getenv("PGUSER"), password = Sys.getenv("PGPASSWORD"))
invisible(dbGetQuery(con, "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)"))
from <- "2026-01-01"
till <- "infinity"

# One row: the key as a text, and as the integer64 of bit64
id <- dbGetQuery(con, "INSERT INTO orders (item) VALUES ($1) RETURNING id::text", list("tea"))$id
check("a key as a text", is.character(id) && grepl("^[0-9]{17,19}$", id), id)
check("finds its row", dbGetQuery(con, "SELECT item FROM orders WHERE id = $1", list(id))$item == "tea")

# Without the cast it is a double.
many <- dbGetQuery(con, "INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, 5) AS n RETURNING id")
check("a bigint is a double", is.double(many$id) && !is.integer64(many$id), many)
ids <- dbGetQuery(con, "SELECT id::text FROM orders WHERE item LIKE 'item %' ORDER BY id")$id
changed <- sum(sprintf("%.0f", many$id) != ids)
check("and another number", changed > 0, changed)
cat("# ", changed, " of 5 were changed, and ", length(unique(many$id)), " of them are different\n", sep = "")

# Rows of a period
rows <- dbGetQuery(con, "SELECT id::text, item FROM orders WHERE snowflake_in(id, $1, $2) ORDER BY id", list(from, till))
rows$id <- as.integer64(rows$id)
check("snowflake_in() finds the rows", nrow(rows) == 6, nrow(rows))
check("integer64 is exact", is.integer64(rows$id) && all(as.character(rows$id) == c(id, ids)), rows$id)

# As a parameter it is a text again.
found <- tryCatch(
  suppressWarnings(dbGetQuery(con, "SELECT item FROM orders WHERE id = $1", list(rows$id[1]))), error = function(e) NULL)
check("an integer64 as a parameter finds nothing", is.null(found) || nrow(found) == 0, found)
key <- as.character(rows$id[1])
check("its text finds the row", dbGetQuery(con, "SELECT item FROM orders WHERE id = $1", list(key))$item == "tea")

# As a double it may be the key of another row.
first <- dbGetQuery(con, "INSERT INTO orders VALUES ((snowflake_nextval() / 128 + 1) * 128, 'first') RETURNING id::text")$id
second <- dbGetQuery(con, "INSERT INTO orders VALUES ($1::bigint + 1, 'second') RETURNING id", list(first))$id
found <- dbGetQuery(con, "SELECT item FROM orders WHERE id = $1", list(second))$item
check("a double finds another row", identical(found, "first"), found)

# dbWriteTable() without the key: the default draws it.
written <- dbWriteTable(con, "orders", data.frame(item = c("milk", "sugar")), append = TRUE, row.names = FALSE)
ids <- dbGetQuery(con, "SELECT id::text FROM orders WHERE item IN ('milk', 'sugar')")$id
check("dbWriteTable() without the key draws it", written && all(grepl("^[0-9]{17,19}$", ids)) && length(ids) == 2, ids)

invisible(dbDisconnect(con))
cat("1..", ran, "\n", sep = "")
quit(status = if (failed > 0) 1 else 0)
