<?php

// Prints what it found, a line each.

require "bootstrap.php";

function say(string $name, callable $f): void
{
    try {
        printf("%s: %s\n", $name, json_encode($f()));
    } catch (Exception $e) {
        printf("%s: %s\n", $name, preg_replace('/^.*ERROR: +(.*?)(\n.*)?$/s', '$1', $e->getMessage()));
    }
}

function is_id($key): bool
{
    return (int) $key > 2 ** 53;
}

say("ten objects have their keys", function () use ($em) {
    $orders = array_map(fn ($n) => new Order("item $n"), range(1, 10));
    array_map([$em, "persist"], $orders);
    $em->flush();
    $keys = array_map(fn ($order) => $order->id, $orders);
    $em->clear();
    return count(array_filter(array_unique($keys), "is_id")) === 10
        && $em->find(Order::class, $keys[3])->item === "item 4";
});

say("RETURNING", function () use ($connection) {
    $id = $connection->fetchOne("INSERT INTO orders (item) VALUES (?) RETURNING id", ["tea"]);
    return is_id($id);
});

say("lastInsertId()", function () use ($connection) {
    $connection->insert("orders", ["item" => "tea"]);
    return $connection->lastInsertId();
});

say("lastInsertId() after an INSERT into another table", function () use ($connection) {
    $connection->executeStatement("INSERT INTO visits DEFAULT VALUES");
    $connection->insert("orders", ["item" => "tea"]);
    return $connection->lastInsertId();
});

say("a converted table with strategy IDENTITY", function () use ($em) {
    $ticket = new Ticket();
    $em->persist($ticket);
    $em->flush();
    return $ticket->id;
});
