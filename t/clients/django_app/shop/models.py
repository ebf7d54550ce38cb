from django.db import models

from .fields import SnowflakeField


class Order(models.Model):
    id = SnowflakeField(primary_key=True)
    item = models.TextField()


class Line(models.Model):
    # Its id is a SnowflakeField, too: default_auto_field in apps.py.
    order = models.ForeignKey(Order, on_delete=models.CASCADE)


class Ticket(models.Model):
    # It was a BigAutoField before the migration 0002.
    id = SnowflakeField(primary_key=True)
    subject = models.TextField()
