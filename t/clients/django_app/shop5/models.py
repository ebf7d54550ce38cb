# Django 5.0 and later have db_default, so that no field of one's own is needed.
# But bulk_create() does not set such keys (seen with 5.2).

from django.db import models
from django.db.models import Func


class Invoice(models.Model):
    id = models.BigIntegerField(primary_key=True, db_default=Func(function="snowflake_nextval"))
    item = models.TextField()
