from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [("shop", "0001_initial")]       # creates the extension

    operations = [
        migrations.CreateModel(
            name="Invoice",
            fields=[
                ("id", models.BigIntegerField(db_default=models.Func(function="snowflake_nextval"),
                                              primary_key=True, serialize=False)),
                ("item", models.TextField()),
            ],
        ),
    ]
