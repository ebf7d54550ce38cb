<?php
// PHP's PDO.  It connects to where PGHOST, PGDATABASE and so on say.

// What is checked, as TAP
$ran = $failed = 0;

function check(string $name, bool $passed, mixed $found = null): void
{
    global $ran, $failed;

    $ran++;
    echo $passed ? 'ok' : 'not ok', " $ran - $name\n";
    if (!$passed) {
        $failed++;
        echo '# found ', str_replace("\n", ' ', var_export($found, true)), "\n";
    }
}

// What an error says, or what came instead of it
function error_of(callable $call): mixed
{
    try {
        return [$call()];
    } catch (PDOException $e) {
        return "{$e->getCode()} {$e->getMessage()}";
    }
}

// IDs have milliseconds.
function now(): DateTimeImmutable
{
    $now = new DateTimeImmutable('now', new DateTimeZone('UTC'));
    return $now->modify($now->format('H:i:s.v'));
}

// With the milliseconds and the zone
function text(DateTimeImmutable $time): string
{
    return $time->format('Y-m-d H:i:s.vP');
}

// keys are those in the order in which the driver returned them, and since is
// now() before they were drawn.
function check_keys(PDO $db, string $what, array $keys, int $count, DateTimeImmutable $since): void
{
    $sorted = $keys;
    sort($sorted);
    check("$what: $count exact keys", count($keys) == $count
        && array_filter($keys, fn($key) => !is_int($key) || $key <= 2 ** 53) == [], $keys);
    check("$what: all of them different", count(array_unique($keys)) == $count, $keys);
    check("$what: ascending", $keys === $sorted, $keys);

    $parse = $db->prepare(<<<'SQL'
        SELECT count(*) FILTER (WHERE p.ts BETWEEN ? AND clock_timestamp()),
          count(*) FILTER (WHERE p.node = current_setting('snowflake.node_id')::int)
        FROM unnest(?::bigint[]) AS id, snowflake_parse(id) AS p
        SQL);
    $parse->execute([text($since), '{' . implode(',', $keys) . '}']);
    [$times, $nodes] = $parse->fetch(PDO::FETCH_NUM);
    check("$what: with the time at which they were drawn", $times == $count, [text($since), $times, $keys]);
    check("$what: with the server's node number", $nodes == $count, $keys);
}

$db = new PDO('pgsql:');
echo '# PHP ', PHP_VERSION, ", PDO\n";
$db->exec('CREATE EXTENSION IF NOT EXISTS snowflake');
$db->exec(<<<'SQL'
    CREATE TABLE orders (
        id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
        item text NOT NULL
    )
    SQL);
$from = now();

// One row: the key comes back as an int.
$since = now();
$insert = $db->prepare('INSERT INTO orders (item) VALUES (?) RETURNING id');
$insert->execute(['tea']);
$id = $insert->fetchColumn();
check_keys($db, 'INSERT', [$id], 1, $since);
$find = $db->prepare('SELECT item FROM orders WHERE id = ?');
foreach ([$id, (string) $id] as $key) {
    $find->execute([$key]);
    check('an ' . gettype($key) . ' finds its row', $find->fetchAll(PDO::FETCH_COLUMN) === ['tea']);
}
$error = error_of(fn() => $find->execute([(float) $id]));
check('a float is an error, not another number', is_string($error) && str_starts_with($error, '22P02'), $error);

// Many rows in one statement.  PHP has no arrays for it, but JSON.
$items = array_map(fn($n) => "item $n", range(1, 1000));
$since = now();
$many = $db->prepare('INSERT INTO orders (item) SELECT jsonb_array_elements_text(?) RETURNING id');
$many->execute([json_encode($items)]);
$ids = $many->fetchAll(PDO::FETCH_COLUMN);
check_keys($db, 'one INSERT of many rows', $ids, 1000, $since);

// The same statement again
$since = now();
$ids = [];
for ($n = 0; $n < 20; $n++) {
    $insert->execute(["prepared $n"]);
    $ids[] = $insert->fetchColumn();
}
check_keys($db, 'a prepared statement', $ids, 20, $since);

// As strings, where PDO shall return all columns so
$db->setAttribute(PDO::ATTR_STRINGIFY_FETCHES, true);
$find = $db->prepare('SELECT id FROM orders WHERE id = ?');
$find->execute([$id]);
check('as a string: all digits', $find->fetchColumn() === (string) $id);
$db->setAttribute(PDO::ATTR_STRINGIFY_FETCHES, false);

// COPY does not return keys.  Where they are needed, draw them before.
$since = now();
$draw = $db->prepare('SELECT snowflake_nextval(?)');
$draw->execute([1000]);
$ids = $draw->fetchAll(PDO::FETCH_COLUMN);
$rows = array_map(fn($key) => "$key\tcopied with its key", $ids);
$db->pgsqlCopyFromArray('orders', $rows);
check_keys($db, 'keys drawn for COPY', $ids, 1000, $since);

// Rows of a period, by the primary key
$till = now()->modify('+1 second');
$count = 2021;
$find = $db->prepare('SELECT * FROM orders WHERE snowflake_in(id, ?, ?)');
$find->execute([$from->format('Y-m-d H:i:s.vP'), $till->format('Y-m-d H:i:s.vP')]);
$found = $find->fetchAll();
check('snowflake_in() finds the rows', count($found) == $count, count($found));
$find->execute([text($from->modify('-1 day')), text($from)]);
check('and none where there are none', $find->fetchAll() === []);

// One argument is a day or an instant.
function id_range_for(string ...$args): string
{
    global $db;

    $range = $db->prepare('SELECT id_range_for(' . implode(', ', array_fill(0, count($args), '?')) . ')');
    $range->execute($args);
    return $range->fetchColumn();
}
check('id_range_for() of a date is the day',
    id_range_for('2026-11-20') === id_range_for('2026-11-20', '2026-11-21'), id_range_for('2026-11-20'));
check('id_range_for() of a time is the millisecond',
    id_range_for(text($from)) === id_range_for(text($from), text($from->modify('+1 millisecond'))),
    id_range_for(text($from)));

// lastInsertId() asks for the last number of a sequence.
$fresh = new PDO('pgsql:');
$fresh->exec("INSERT INTO orders (item) VALUES ('tea')");
$error = error_of(fn() => $fresh->lastInsertId());
check('lastInsertId() is an error', is_string($error) && str_starts_with($error, '55000')
    && str_contains($error, 'lastval is not yet defined in this session'), $error);

// After a conversion it returns what another table's sequence gave: here that of
// a log, which a trigger writes.
$db->exec(<<<'SQL'
    CREATE TABLE tickets (id bigserial PRIMARY KEY, item text);
    CREATE TABLE log (id bigserial PRIMARY KEY, ticket bigint);
    CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO log (ticket) VALUES (new.id); RETURN NULL; END';
    SQL);
$ticket = $db->prepare('INSERT INTO tickets (item) VALUES (?) RETURNING id');
$ticket->execute(['before']);
check('lastInsertId() of a sequence', $ticket->fetchColumn() == $db->lastInsertId());
$db->exec("SELECT snowflake_convert('tickets', 'id', dry_run => false)");
$db->exec('CREATE TRIGGER log AFTER INSERT ON tickets FOR EACH ROW EXECUTE FUNCTION log()');
$ticket->execute(['after']);
$id = $ticket->fetchColumn();
check('after a conversion lastInsertId() is of another table', $db->lastInsertId() === '1' && $id > 2 ** 53,
    [$db->lastInsertId(), $id]);
$error = error_of(fn() => $db->lastInsertId('tickets_id_seq'));
check('with the name of the former sequence it is an error', is_string($error) && str_starts_with($error, '42P01'), $error);

// JSON in PHP keeps all digits, and writes a number.
check('JSON keeps the digits', json_decode(json_encode(['id' => $id]))->id === $id);
check('JSON: a number', json_encode(['id' => $id]) === "{\"id\":$id}");
check('JSON: a text', json_encode(['id' => (string) $id]) === "{\"id\":\"$id\"}");

echo "1..$ran\n";
exit($failed == 0 ? 0 : 1);
