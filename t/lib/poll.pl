# A reader that polls, in psql, for IDs above its last one, and goes on there when it has
# lost its connection.  It keeps what a poll has read when that has come to its end.
#
#	poll.pl IDS STOP POLL PSQL ...
#
# IDS: the file for the IDs.  STOP: where that file is, it polls once more.  POLL: the
# statements, with LAST for the last ID.  PSQL: the psql, with its options.

use strict;
use warnings FATAL => 'all';

use IPC::Open2;
my ($ids, $stop, $poll, @psql) = @ARGV;
my ($last, $is_last, $done) = (0);

$SIG{PIPE} = 'IGNORE';
open my $kept, '>', $ids or die "$ids: $!";
while (!$done)
{
	my $pid = open2(my $out, my $in, @psql);
	my $line = '';

	while (defined $line && !$done)
	{
		my @read;

		$is_last = -e $stop;
		print $in $poll =~ s/LAST/$last/gr, "\n\\echo end\n";
		$in->flush;
		push @read, $line while defined($line = <$out>) && $line ne "end\n";
		next if !defined $line;
		print $kept @read;
		$last = $read[-1] + 0 if @read;
		$done = $is_last;
		select undef, undef, undef, 0.01;
	}
	close $in;
	close $out;
	waitpid $pid, 0;
	select undef, undef, undef, 0.1;
}
close $kept or die "$ids: $!";
