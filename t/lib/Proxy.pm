
# A proxy before a server that can do what networks do.  A program, started by
# start_proxy() of LeaseTest.pm:
#
#	perl Proxy.pm LISTEN TARGET CONTROL
#
# LISTEN is the path of a Unix socket, or a port of 127.0.0.1; TARGET the path
# of the server's Unix socket.  The file CONTROL says what to do, and is read
# again and again:
#
#	pass		let all through
#	delay MS	what comes from the server, so much later
#	hold		let nothing through, and all of it later, once it is another mode
#	hold answers	the same, of what comes from the server only
#	hole		let nothing through, ever: of those connected before as well
#	refuse		no connections, those there were are cut
#	reset		cut those connected before, let new ones through
#	cut BYTES	cut each connection after so many bytes from the server,
#				counted since this was said
#
# Ends when its standard input does.

package Proxy;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

run(@ARGV) unless caller;

sub run
{
	my ($listen, $target, $control) = @_;
	my ($mode, $argument, $said) = ('', '', '');
	my ($listener, @pairs);

	$SIG{PIPE} = 'IGNORE';
	STDIN->blocking(0);
	while (1)
	{
		if (open my $fh, '<', $control)
		{
			my $says = <$fh> // $said;
			chomp $says;
			if ($says ne $said)
			{
				$said = $says;
				($mode, $argument) = split / /, $said, 2;
				$_->{passed} = 0 foreach @pairs;
				cut($_) foreach $mode eq 'reset' ? splice @pairs : ();

				# that it was heard
				rename $control, "$control.heard";
			}
		}

		if ($mode eq 'refuse')
		{
			close $listener if $listener;
			$listener = undef;
			cut($_) foreach splice @pairs;
		}
		elsif (!$listener)
		{
			$listener = listen_at($listen);
		}

		my $select = IO::Select->new(\*STDIN, $listener // (),
			map { values %{ $_->{sockets} } } @pairs);
		foreach my $socket ($select->can_read(0.01))
		{
			if ($socket == \*STDIN)
			{
				return if !sysread STDIN, my $nothing, 1;
			}
			elsif ($listener && $socket == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::UNIX->new(Peer => $target);
				push @pairs,
				  {
					sockets => { client => $client, $server ? (server => $server) : () },
					queue => { client => [], server => [] },
					passed => 0,
					gone => !$server
				  };
			}
			else
			{
				foreach my $pair (@pairs)
				{
					foreach my $from (keys %{ $pair->{sockets} })
					{
						receive($pair, $from, $mode, $argument)
						  if $pair->{sockets}{$from} == $socket;
					}
				}
			}
		}

		foreach my $pair (@pairs)
		{
			deliver($pair, $_, $mode, $argument) foreach qw(client server);
			cut($pair) if $pair->{gone} && $mode !~ /^(hole|hold)/;
		}
		@pairs = grep { %{ $_->{sockets} } } @pairs;
	}
}

sub listen_at
{
	my ($listen) = @_;

	if ($listen =~ /^\d+$/)
	{
		return IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $listen,
			Listen => 100, ReuseAddr => 1) // die "port $listen: $!";
	}
	unlink $listen;
	return IO::Socket::UNIX->new(Local => $listen, Listen => 100)
	  // die "$listen: $!";
}

# Something has come from there, or the end.
sub receive
{
	my ($pair, $from, $mode, $argument) = @_;
	my $socket = $pair->{sockets}{$from};
	my $delay = $mode eq 'delay' && $from eq 'server' ? $argument / 1000 : 0;

	if (!sysread $socket, my $bytes, 65536)
	{
		# what came before is to be delivered
		close $socket;
		delete $pair->{sockets}{$from};
		$pair->{gone} = 1;
	}
	elsif ($mode ne 'hole')
	{
		push @{ $pair->{queue}{$from} }, [ time() + $delay, $bytes ];
	}
	return;
}

# Send on what has come from there.
sub deliver
{
	my ($pair, $from, $mode, $argument) = @_;
	my $queue = $pair->{queue}{$from};
	my $socket = $pair->{sockets}{ $from eq 'client' ? 'server' : 'client' };

	if ($mode eq 'hole')
	{
		@{$queue} = ();
		return;
	}
	return
	  if $mode eq 'hold' && ($argument // '') ne 'answers'
	  || $mode eq 'hold' && $from eq 'server';
	while (@{$queue} && $queue->[0][0] <= time())
	{
		my (undef, $bytes) = @{ shift @{$queue} };

		if ($mode eq 'cut' && $from eq 'server')
		{
			$bytes = substr $bytes, 0, $argument - $pair->{passed};
			$pair->{passed} += length $bytes;
			$pair->{gone} = 1 if $pair->{passed} >= $argument;
		}
		syswrite $socket, $bytes if $socket && $bytes ne '';
	}
	return;
}

sub cut
{
	my ($pair) = @_;

	close $_ foreach values %{ $pair->{sockets} };
	$pair->{sockets} = {};
	return;
}

1;
