from django.db import connection
from django.test import TestCase, TransactionTestCase

from shop.models import Line, Order


class Truncating(TransactionTestCase):
    """Django truncates all tables after each of these."""

    reset_sequences = True

    def test_one(self):
        self.assertEqual(Order.objects.count(), 0)
        order = Order.objects.create(item="tea")
        self.assertGreater(Line.objects.create(order=order).id, order.id)

    test_two = test_one


class RollingBack(TestCase):
    def test_members(self):
        with connection.cursor() as c:
            c.execute("SELECT count(*) FROM pg_depend WHERE deptype = 'e' AND"
                      " refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')")
            print("members:", *c.fetchone())
