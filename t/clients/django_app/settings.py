# Django 3.2 to 5.2.

import os

import django

SECRET_KEY = "for the test only"
USE_TZ = True
INSTALLED_APPS = ["shop"]
if django.VERSION >= (5, 0):
    INSTALLED_APPS.append("shop5")

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "USER": os.environ["PGUSER"],
        "NAME": os.environ["PGDATABASE"],
    }
}

# Not SnowflakeField: Django's own table of migrations would have it, before the
# extension is created.
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
