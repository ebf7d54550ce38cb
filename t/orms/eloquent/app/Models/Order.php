<?php

namespace App\Models;

use Illuminate\Database\Eloquent\Model;

class Order extends Model
{
    public $timestamps = false;
    protected $fillable = ["item"];

    public function scopeDrawnIn($query, $from, $to)
    {
        return $query->whereRaw("snowflake_in(id, ?, ?)", [$from->toIso8601String(), $to->toIso8601String()]);
    }
}
