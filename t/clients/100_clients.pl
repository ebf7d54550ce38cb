# The extension as applications use it: by drivers and ORMs, and through a
# pooler.  Each program in t/clients/ is an example that checks what it sees and
# prints that as TAP, which is passed on here.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $dir = abs_path(dirname(__FILE__));
my $jdbc = '/usr/share/java/postgresql.jar';

# Those of Debian's packages, whatever else is installed.
my ($python, $ruby, $php, $perl) = map { "/usr/bin/$_" } qw(python3 ruby php perl);

# scripts/test.sh says where node-postgres is.
local $ENV{NODE_PATH} =
  join(':', grep { $_ } $ENV{SNOWFLAKE_NODE_PATH}, '/usr/share/nodejs');
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

# JDBC needs a port.  Only the role of the clients may log in there, which is no
# superuser.
my $node = snowflake_node('clients', <<'CONF');
listen_addresses = '127.0.0.1'
snowflake.node_id = 7
log_statement = none
CONF
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', <<'HBA');
local all all trust
host all app 127.0.0.1/32 trust
HBA
reload_node($node);

# A database that belongs to the clients' role, as it does in applications, and
# has their encoding, whatever the locale is here.
sub new_database
{
	my ($name) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER app TEMPLATE template0 ENCODING 'UTF8'");
	return $name;
}

# Run a program, and report each of its checks.
sub client
{
	my ($name, $database, $host, @command) = @_;
	my ($out, $err) = ('', '');

	local %ENV = (
		%ENV,
		PGHOST => $host,
		PGPORT => $node->port,
		PGUSER => 'app',
		PGDATABASE => $database);
	IPC::Run::run(\@command, '<', '/dev/null', '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	my $status = $?;

	my ($checks, $plan) = (0, '');
	foreach my $line (split /\n/, $out)
	{
		if ($line =~ /^((?:not )?ok) \d+ - (.*)/)
		{
			ok($1 eq 'ok', "$name: $2");
			$checks++;
		}
		elsif ($line =~ /^1\.\.(\d+)$/)
		{
			$plan = $1;
		}
		else
		{
			note substr($line =~ s/^# //r, 0, 2000);
		}
	}
	ok($status == 0 && $plan eq $checks && $checks > 0,
		"$name: made all its checks, and ended well")
	  or diag "wait status $status, $checks checks of '$plan'\n$err";
	return;
}

client('psycopg 3', new_database('psycopg3'), $node->host,
	$python, "$dir/psycopg3.py");
client('asyncpg', new_database('asyncpg'), $node->host,
	$python, "$dir/asyncpg_orders.py");
client('SQLAlchemy', new_database('sqlalchemy'), $node->host,
	$python, "$dir/sqlalchemy_orm.py");
client('Django', new_database('django'), $node->host,
	$python, "$dir/django_app/check.py");
client('node-postgres', new_database('node'), $node->host,
	'node', "$dir/node.js");
client('pg of Ruby', new_database('ruby'), $node->host,
	$ruby, "$dir/ruby.rb");
client('DBD::Pg', new_database('dbd_pg'), $node->host,
	$perl, "$dir/dbi/orders.pl");
client('PDO', new_database('pdo'), $node->host,
	$php, "$dir/pdo.php");
new_database('jdbc');
my @java = ('java', '-XX:-UsePerfData', '-cp', $jdbc, "$dir/Jdbc.java");
client('JDBC', '', '',
	@java, 'jdbc:postgresql://127.0.0.1:' . $node->port . '/jdbc?user=app');

# Hibernate looks for its classes in files.  scripts/test.sh says where its own are.
my $classes = $node->basedir . '/classes';
my $jars = join ':', $classes, $jdbc, map { "$ENV{SNOWFLAKE_HIBERNATE}/$_.jar" }
  qw(hibernate-core hibernate-commons-annotations antlr commons-collections3 dom4j
  geronimo-jpa_2.0_spec geronimo-jta-1.2-spec javassist slf4j-api);
command_ok([ 'javac', '-J-XX:-UsePerfData', '-cp', $jars, '-d', $classes, "$dir/Hibernate.java" ], 'the example of Hibernate compiles');
new_database('hibernate');
client('Hibernate', '', '', 'java', '-XX:-UsePerfData', '-cp', $jars,
	'Hibernate', 'jdbc:postgresql://127.0.0.1:' . $node->port . '/hibernate?user=app');

#
# Through a pooler
#
$node->safe_psql(new_database('pooled'), 'CREATE EXTENSION snowflake');
my ($pooler, $host) = start_pooler($node, user => 'app', default_pool_size => 2);
client('psycopg 3, pooled', 'pooled', $host, $python, "$dir/pooler_psycopg3.py");
client('node-postgres, pooled', 'pooled', $host, 'node', "$dir/pooler_node.js");
stop_process($pooler);

new_database('jdbc_pooled');
my $port = PostgreSQL::Test::Cluster::get_free_port();
($pooler, $host) = start_pooler(
	$node,
	user => 'app',
	default_pool_size => 2,
	listen_addr => '127.0.0.1',
	listen_port => $port,
	ignore_startup_parameters => 'extra_float_digits');
client('JDBC, pooled', '', '',
	@java, "jdbc:postgresql://127.0.0.1:$port/jdbc_pooled?user=app&prepareThreshold=0", 'pooled');
stop_process($pooler);

($pooler, $host) =
  start_pooler($node, user => 'app', default_pool_size => 1, pool_mode => 'session');
client('psycopg 3, pooled by session', 'pooled', $host,
	$python, "$dir/pooler_session.py");
stop_process($pooler);

#
# IDs for JavaScript's numbers
#
forget_mark($node);
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'js53'");
start_node($node);
client('node-postgres, js53', new_database('js53'), $node->host,
	'node', "$dir/node_js53.js");

$node->stop;
done_testing();
