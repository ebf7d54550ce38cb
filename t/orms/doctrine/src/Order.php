<?php

use Doctrine\ORM\Mapping as ORM;

#[ORM\Entity, ORM\Table(name: "orders")]
class Order
{
    #[ORM\Id, ORM\GeneratedValue(strategy: "CUSTOM"), ORM\CustomIdGenerator(SnowflakeGenerator::class)]
    #[ORM\Column(type: "bigint", options: ["default" => "snowflake_nextval()"],
        columnDefinition: "bigint NOT NULL DEFAULT snowflake_nextval()")]
    public string $id;

    #[ORM\Column(type: "text")]
    public string $item;

    public function __construct(string $item)
    {
        $this->item = $item;
    }
}
