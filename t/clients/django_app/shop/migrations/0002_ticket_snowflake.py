# A table that has keys from a sequence draws IDs from now on.  Its rows keep
# their keys, which are far below all IDs.

from django.db import migrations

from shop.fields import SnowflakeField


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "SELECT snowflake_convert('shop_ticket', 'id', dry_run => false)",
            "SELECT snowflake_convert('shop_ticket', 'id', dry_run => false, target => 'bigserial')",
            state_operations=[migrations.AlterField("ticket", "id", SnowflakeField(primary_key=True, serialize=False))],
        ),
    ]
