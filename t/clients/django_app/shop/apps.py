from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"

    # The key of each model of this app that names none.
    default_auto_field = "shop.fields.SnowflakeField"
