<?php

require_once "Doctrine/ORM/autoload.php";
foreach (glob(__DIR__ . "/src/*.php") as $file) {
    require_once $file;
}

use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\ORMSetup;

$config = ORMSetup::createAttributeMetadataConfiguration([__DIR__ . "/src"], true);
$connection = DriverManager::getConnection([
    "driver" => "pdo_pgsql",
    "host" => getenv("PGHOST"),
    "port" => getenv("PGPORT"),
    "user" => getenv("PGUSER"),
    "password" => getenv("PGPASSWORD"),
    "dbname" => getenv("PGDATABASE"),
], $config);
$em = new EntityManager($connection, $config);
