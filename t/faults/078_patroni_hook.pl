# What packaging/patroni_hook.py does with each configuration of Patroni: where it
# finds the REST interface, and what it says when it cannot ask; and why it does not
# open a registry.  Patroni itself is a program here that has its configuration file,
# serves what is under bootstrap.dcs, and starts pre_promote; 076_patroni_registry.pl
# has the real one.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use FaultTest;
use SnowflakeTest;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $hook = '/usr/bin/python3 ' . abs_path('packaging/patroni_hook.py');
my ($true, $false) = (JSON::PP::true, JSON::PP::false);

append_to_file("$dir/patroni", <<'PYTHON');
import http.server, json, shlex, ssl, subprocess, sys, threading, yaml

config = yaml.safe_load(open(sys.argv[1]))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(config["bootstrap"]["dcs"]).encode()
        self.send_response(200 if self.path == "/config" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

if "restapi" in config:
    rest = config["restapi"]
    host, port = rest["listen"].split(":")
    server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
    if "certfile" in rest:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=rest.get("cafile"))
        tls.load_cert_chain(rest["certfile"], rest["keyfile"])
        if rest.get("verify_client") == "required":
            tls.verify_mode = ssl.CERT_REQUIRED
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
sys.exit(subprocess.run(shlex.split(config["postgresql"]["pre_promote"])).returncode)
PYTHON
system_or_bail('openssl', qw(req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=nobody -keyout), "$dir/key.pem", '-out', "$dir/cert.pem");
my %pair = (certfile => "$dir/cert.pem", keyfile => "$dir/key.pem");

#
# A primary, which has a registry, and two standbys.  The library is not preloaded: so
# promoted, a standby could draw no ID.
#
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION snowflake');
$primary->safe_psql('postgres', <<'SQL');
CREATE ROLE owner LOGIN;
GRANT CREATE ON DATABASE postgres TO owner;
CREATE SCHEMA "The registry" AUTHORIZATION owner;
SET ROLE owner;
CREATE EXTENSION snowflake_registry SCHEMA "The registry";
SQL
$primary->backup('b');
my ($member, $other) = map { PostgreSQL::Test::Cluster->new($_) } qw(member other);
foreach my $standby ($member, $other)
{
	$standby->init_from_backup($primary, 'b', has_streaming => 1);
	$standby->start;
	$primary->wait_for_catchup($standby, 'replay');
}

# as --others has them: what follows "host=" where psql connects
sub at { return $_[0]->host . ' port=' . $_[0]->port; }
my $at = "'host=" . at($member) . " dbname=postgres'";
my $registry = $at =~ s/'$/ user=owner'/r;
my @others = map { at($_) } $primary, $other;

# Patroni on $member calls the script before a promotion.  Its configuration, and:
#	options	more options of the script
# Returns the exit status of the script, and what it says.
sub pre_promote
{
	my ($config, %opts) = @_;
	my $note = -e note_file() ? slurp_file(note_file()) : undef;
	my ($status, $said);

	$config->{postgresql}{pre_promote} = "$hook --dbname $at " . ($opts{options} // '') . ' pre_promote';
	unlink "$dir/config.yml";
	append_to_file("$dir/config.yml", encode_json($config));
	# once more where somebody has not answered within the script's 2 seconds
	wait_for(
		sub {
			unlink note_file();
			append_to_file(note_file(), $note) if defined $note;
			IPC::Run::run([ '/usr/bin/python3', "$dir/patroni", "$dir/config.yml" ], '<', \undef, '>&', \$said);
			$status = $? >> 8;
			return $said !~ /timed out|timeout expired/;
		});
	return ($status, $said);
}

# A configuration as Debian makes it, of which the address is not the loopback's usual
# one, with that mode and more of restapi
sub config
{
	my ($dcs, %rest) = @_;
	my $address = '127.0.0.2:' . PostgreSQL::Test::Cluster::get_free_port();

	return { bootstrap => { dcs => $dcs }, restapi => { listen => $address, connect_address => $address, %rest } };
}

# Forget that it has refused.
sub note_file { return $member->data_dir . '/pg_stat_tmp/patroni_hook.json'; }

sub refuses
{
	my ($name, @call) = @_;

	unlink note_file();
	my ($status, $said) = pre_promote(@call);
	is($status, 1, "it is asked, and refuses: $name");
	like($said, qr/^snowflake: after a promotion this server could draw no ID: preload: .*^snowflake: this promotion is refused$/ms, "it says why: $name");
	return;
}

#
# Where Patroni is asked
#
refuses('an address of the host', config({}));
my ($status, $said) = pre_promote(config({}));
is($status, 0, 'it does not refuse again');
refuses('a certificate signed by nobody', config({}, %pair));
refuses('a client certificate is required',
	{ %{ config({}, %pair, cafile => $pair{certfile}, verify_client => 'required') }, ctl => \%pair });
refuses('no connect_address', do { my $c = config({}); delete $c->{restapi}{connect_address}; $c });
my $elsewhere = config({}, connect_address => '127.0.0.2:9');
refuses('--api', $elsewhere, options => "--api http://$elsewhere->{restapi}{listen}");
refuses('synchronous_mode: off', config({ synchronous_mode => 'off' }));

foreach (
	[ 'nobody answers', qr/^snowflake: http:\/\/127\.0\.0\.2:9 could not be asked for its mode: .*Connection refused/m, $elsewhere ],
	[ 'the file has no address', qr/^snowflake: Patroni could not be asked for its mode: \Q$dir\E\/config\.yml does not have its address: KeyError\('restapi'\)/m,
		{ bootstrap => { dcs => {} } } ],
	[ 'a client certificate is required, and missing', qr/^snowflake: https:\S+ could not be asked for its mode: /m,
		config({}, %pair, cafile => $pair{certfile}, verify_client => 'required') ])
{
	my ($name, $wanted, $config) = @{$_};

	unlink note_file();
	($status, $said) = pre_promote($config);
	is($status, 0, "it does not refuse: $name");
	like($said, $wanted, "it says so: $name");
	like($said, qr/Without it this script refuses no promotion and opens no registry\./, "and what follows: $name");
}
foreach my $mode ($true, 'on', 'quorum')
{
	unlink note_file();
	($status, $said) = pre_promote(config({ synchronous_mode => $mode }));
	is($status, 0, "it does not refuse in synchronous mode: $mode");
}

#
# Why a registry is not opened
#
my %strict = (synchronous_mode => $true, synchronous_mode_strict => $true);

# What the script says after a promotion that followed that
sub after_promotion
{
	my ($config, @others) = @_;
	my $options = "--registry $registry";

	$options .= " --others '" . join(',', @others) . "'" if @others;
	($status, $said) = pre_promote($config, options => $options);
	is($status, 0, 'it is promoted') or diag $said;
	return on_role_change();
}

sub on_role_change
{
	my $note = -e note_file() ? slurp_file(note_file()) : undef;
	my $after;

	# once more, as in pre_promote()
	wait_for(
		sub {
			unlink note_file();
			append_to_file(note_file(), $note) if defined $note;
			$after = `$hook --dbname $at --registry $registry on_role_change primary c 2>&1`;
			return $after !~ /timed out|timeout expired/;
		});
	note $after;
	return $after;
}

sub stays
{
	my ($why, @call) = @_;

	is(after_promotion(@call), "snowflake: the registry opens by itself: $why\n", "it stays as it is: $why");
	return;
}

pre_promote(config({}));
stays('synchronous_mode is off', config({}), @others);    # promoted all the same
stays('synchronous_mode is quorum', config({ %strict, synchronous_mode => 'quorum' }), @others);
stays('synchronous_mode_strict is off', config({ synchronous_mode => $true }), @others);
stays('synchronous_mode_strict is off', config({ %strict, synchronous_mode_strict => 'off' }), @others);
stays('Patroni could not be asked for its mode', config(\%strict, connect_address => '127.0.0.2:9'), @others);
stays('--others names no member', config(\%strict));
stays("$others[0], /nowhere did not answer as streaming standbys, and only one may be missing", config(\%strict), $others[0], '/nowhere');
unlink note_file();
is(on_role_change(), "snowflake: the registry opens by itself: pre_promote has noted nothing in the last 5 minutes\n", 'it stays as it is: no note');

my $as_owner = $registry;
$registry = $at;
stays('its state could not be read, or its owner is neither a superuser nor the role of --registry', config(\%strict), @others);
$registry = $as_owner;

$primary->safe_psql('postgres', q(UPDATE "The registry".snowflake_registry_place SET closed_until = now() + interval '1 hour'));
$primary->wait_for_catchup($_, 'replay') foreach $member, $other;
stays('it was closed before', config(\%strict), @others);
$primary->safe_psql('postgres', q(SELECT "The registry".snowflake_open_registry()));

$primary->wait_for_catchup($member, 'replay');
$member->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$primary->safe_psql('postgres', 'CREATE TABLE more ()');
$primary->wait_for_catchup($_, 'write') foreach $member, $other;
stays("$others[1] had received more than this member had replayed", config(\%strict), @others);
$member->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$primary->wait_for_catchup($member, 'replay');

#
# A promotion that has lost nothing
#
$primary->stop('immediate');
(undef, $said) = pre_promote(config(\%strict), options => "--registry $registry --others '" . join(',', @others) . "'");
$member->promote;
is(on_role_change(), "snowflake: the registry is open: the promotion has lost nothing\n", 'it is opened') or diag $said;
is($member->safe_psql('postgres', q(SELECT state FROM "The registry".snowflake_registry)), 'open', 'so says its view');

# a note of another promotion
append_to_file(note_file(), encode_json({ open_on => '000000AA', at => time }));
is(on_role_change(), "snowflake: the registry opens by itself: it was open on timeline 000000AA, which is not the parent of the present one\n", 'another timeline');

$_->stop foreach $member, $other;
done_testing();
