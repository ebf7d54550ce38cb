<?php

use Doctrine\ORM\Mapping as ORM;

// As it was before its table was converted
#[ORM\Entity, ORM\Table(name: "tickets")]
class Ticket
{
    #[ORM\Id, ORM\GeneratedValue(strategy: "IDENTITY"), ORM\Column(type: "bigint")]
    public string $id;

    #[ORM\Column(type: "text")]
    public string $subject = "help";
}
