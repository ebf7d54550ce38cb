<?php

// Prints what it found, a line each.

use App\Models\Order;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Support\Facades\DB;

$app = require __DIR__ . "/bootstrap/app.php";
$app->make(Kernel::class)->bootstrap();

function say(string $name, $found): void
{
    printf("%s: %s\n", $name, json_encode($found));
}

function is_id(...$keys): bool
{
    return array_filter(array_unique($keys), fn ($key) => is_int($key) && $key > 2 ** 53) === $keys;
}

$order = Order::create(["item" => "tea"]);
say("create()", is_id($order->id) && Order::find($order->id)->item === "tea");
say("insertGetId()", is_id(DB::table("orders")->insertGetId(["item" => "tea"])));
Order::insert([["item" => "a"], ["item" => "b"]]);
say("insert()", is_id(...Order::orderBy("id")->pluck("id")));
say("drawnIn()", Order::drawnIn(now()->subMinute(), now()->addMinute())->count());

DB::statement("INSERT INTO visits DEFAULT VALUES");
DB::insert("INSERT INTO orders (item) VALUES ('tea')");
say("lastInsertId() after an INSERT into another table", DB::getPdo()->lastInsertId());

Order::truncate();
say("truncate()", Order::count());
