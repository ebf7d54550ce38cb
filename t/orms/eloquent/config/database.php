<?php

return [
    "default" => "pgsql",
    "migrations" => "migrations",
    "connections" => [
        "pgsql" => [
            "driver" => "pgsql",
            "host" => env("PGHOST"),
            "port" => env("PGPORT"),
            "database" => env("PGDATABASE"),
            "username" => env("PGUSER"),
            "password" => env("PGPASSWORD"),
            "charset" => "utf8",
            "schema" => "public",
        ],
    ],
];
