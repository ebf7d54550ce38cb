<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Schema;

return new class extends Migration
{
    public function up()
    {
        DB::statement("CREATE EXTENSION IF NOT EXISTS snowflake");

        Schema::create("orders", function (Blueprint $table) {
            $table->bigInteger("id")->default(DB::raw("snowflake_nextval()"))->primary();
            $table->text("item");
        });

        Schema::create("lines", function (Blueprint $table) {
            $table->bigInteger("id")->default(DB::raw("snowflake_nextval()"))->primary();
            $table->foreignId("order_id")->constrained();
        });
    }

    public function down()
    {
        Schema::drop("lines");
        Schema::drop("orders");
    }
};
