# The app of t/clients, in a project with tables of Django's own.
from settings import *

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "shop"]
