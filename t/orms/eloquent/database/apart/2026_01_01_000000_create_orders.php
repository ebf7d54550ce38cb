<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Schema;

return new class extends Migration
{
    public function up()
    {
        DB::statement("CREATE SCHEMA IF NOT EXISTS ext");
        DB::statement("CREATE EXTENSION IF NOT EXISTS snowflake SCHEMA ext");

        Schema::create("orders", function (Blueprint $table) {
            $table->bigInteger("id")->default(DB::raw("ext.snowflake_nextval()"))->primary();
            $table->text("item");
        });
    }
};
