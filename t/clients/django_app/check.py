# Migrates a database and uses it.

import os
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import django
from django.core.management import call_command
from django.db import connection

sys.path.append(str(Path(__file__).parent.parent))
from checks import check, check_keys, done, now

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from shop.models import Line, Order, Ticket

print("# Django", django.__version__, "with", connection.Database.__name__,
      connection.Database.__version__)

#
# Migrations, and a table that had keys of a sequence
#

call_command("migrate", "shop", "0001", verbosity=0)
old = Ticket.objects.create(subject="with a number")
check("a BigAutoField begins at 1", old.id == 1, old.id)
call_command("migrate", verbosity=0)
check("makemigrations has nothing to add",
      call_command("makemigrations", dry_run=True, check_changes=True, verbosity=0) is None)

since = now()
new = Ticket.objects.create(subject="with an ID")
check_keys(connection.cursor(), "a converted table", [new.id], 1, since)
check("it keeps its rows", Ticket.objects.get(id=1).subject == "with a number")
call_command("migrate", "shop", "0001", verbosity=0)
check("the migration is reversible",
      Ticket.objects.create(subject="a sequence again").id == new.id + 1)
call_command("migrate", verbosity=0)

#
# Keys
#

began = since = now()
order = Order(item="tea")
order.save()
check_keys(connection.cursor(), "save()", [order.id], 1, since)

order.item = "green tea"
order.save()
check("save() of an object with a key updates it",
      list(Order.objects.values_list("id", "item")) == [(order.id, "green tea")])

since = now()
orders = Order.objects.bulk_create(Order(item=f"item {n}") for n in range(1000))
check_keys(connection.cursor(), "bulk_create()", [o.id for o in orders], 1000, since)
check("each has the key of its own row",
      Order.objects.in_bulk([o.id for o in orders]) == {o.id: o for o in orders}
      and all(Order.objects.get(id=o.id).item == o.item for o in orders[::100]))

since = now()
coffee, created = Order.objects.get_or_create(item="coffee")
check_keys(connection.cursor(), "get_or_create()", [coffee.id], 1, since)
again, created_again = Order.objects.get_or_create(item="coffee")
check("the second time it gets the first", (created, created_again, again.id)
      == (True, False, coffee.id), again.id)

since = now()
line = Line.objects.create(order=coffee)
check_keys(connection.cursor(), "a key by default_auto_field", [line.id], 1, since)
check("a foreign key has the key", Line.objects.get(order__item="coffee").order_id == coffee.id)

# db_default, where Django has it
if django.VERSION >= (5, 0):
    from shop5.models import Invoice

    since = now()
    invoices = [Invoice.objects.create(item="tea"), Invoice(item="milk"),
                Invoice.objects.get_or_create(item="coffee")[0]]
    invoices[1].save()
    keys = [invoices[i].id for i in (0, 2, 1)]
    check_keys(connection.cursor(), "db_default", keys, 3, since)
    check("db_default: drawn_in finds the rows",
          Invoice.objects.filter(id__drawn_in=(since, now() + timedelta(seconds=1))).count() == 3)

#
# Rows of a period, by the primary key
#

until = now() + timedelta(seconds=1)
total = Order.objects.count()
rows = Order.objects.filter(id__drawn_in=(began, until))
check("drawn_in finds the rows", rows.count() == total == 1002, (rows.count(), total))
check("and none where there are none",
      not Order.objects.filter(id__drawn_in=(began - timedelta(days=1), began)).exists())
check("it uses the primary key", "Index Cond" in rows.order_by("id")[:1].explain(), rows.explain())

# The same without the lookup
with connection.cursor() as c:
    from_ts, to_ts = began, until
    c.execute("SELECT lower(r), upper(r) FROM id_range_for(%s, %s) AS r", (from_ts, to_ts))
    lo, hi = c.fetchone()
orders = Order.objects.filter(id__gte=lo, id__lt=hi)
check("id_range_for() finds the rows", orders.count() == total, (lo, hi))


# One argument, of Python's types or a text, is a day or an instant.
def id_range_for(*args):
    with connection.cursor() as c:
        c.execute(f"SELECT id_range_for({', '.join(['%s'] * len(args))})::text", args)
        return c.fetchone()[0]


day = began.date()
ids = id_range_for(day, day + timedelta(days=1))
check("id_range_for() of a date is the day", id_range_for(day) == id_range_for(str(day)) == ids, ids)
ids = id_range_for(began, began + timedelta(milliseconds=1))
check("id_range_for() of a time is the millisecond",
      id_range_for(began) == id_range_for(str(began)) == ids, ids)

#
# Dumped and loaded, the keys are the same, and loading finds no sequence to set.
#

keys = set(Order.objects.values_list("id", flat=True))
with TemporaryDirectory() as folder:
    dump = Path(folder, "orders.json")
    call_command("dumpdata", "shop.Order", output=dump, verbosity=0)
    Order.objects.all().delete()
    call_command("loaddata", dump, verbosity=0)
check("dumpdata and loaddata keep the keys",
      set(Order.objects.values_list("id", flat=True)) == keys)
since = now()
check_keys(connection.cursor(), "afterwards", [Order.objects.create(item="later").id], 1, since)

done()
