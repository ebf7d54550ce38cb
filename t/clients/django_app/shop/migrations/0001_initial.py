from django.contrib.postgres.operations import CreateExtension
from django.db import migrations, models

import shop.fields


class Migration(migrations.Migration):
    initial = True
    dependencies = []

    operations = [
        # The extension is trusted: the owner of the database may create it.
        CreateExtension("snowflake"),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", shop.fields.SnowflakeField(primary_key=True, serialize=False)),
                ("item", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Line",
            fields=[
                ("id", shop.fields.SnowflakeField(auto_created=True, primary_key=True,
                                                  serialize=False, verbose_name="ID")),
                ("order", models.ForeignKey(on_delete=models.CASCADE, to="shop.order")),
            ],
        ),
        migrations.CreateModel(
            name="Ticket",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("subject", models.TextField()),
            ],
        ),
    ]
