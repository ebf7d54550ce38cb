# A page in Markdown, taken apart: headings, tables, blocks and prose.

package Page;

use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use PostgreSQL::Test::Utils qw(slurp_file);

# The file NAME:
#
#   lines     all of them
#   headings  level, text, anchor
#   tables    heading above it, line, head (cells), rows (lists of cells)
#   blocks    mark (sql, ini, ...), line, end, lines
#   prose     [line number, text], tables among them, but no blocks
#   faults    what is wrong with the page's form
sub new
{
	my ($class, $name) = @_;
	my $self = bless {
		name => $name,
		folder => dirname($name),
		lines => [ split /\n/, slurp_file($name) ],
		map { $_ => [] } qw(headings tables blocks prose faults)
	}, $class;
	my ($block, $table);
	my $heading = '';

	foreach my $n (1 .. @{ $self->{lines} })
	{
		my $line = $self->{lines}[ $n - 1 ];

		if ($block)
		{
			if ($line =~ /^\s*```$/)
			{
				$block->{end} = $n;
				push @{ $self->{blocks} }, $block;
				$self->fault($block->{line}, 'an empty block') unless @{ $block->{lines} };
				undef $block;
			}
			else
			{
				push @{ $block->{lines} }, $line =~ s/^\s{0,$block->{indent}}//r;
			}
			next;
		}
		if ($line =~ /^(\s*)```(\w*)$/)
		{
			$block = { indent => length $1, mark => $2, line => $n, lines => [] };
			next;
		}
		undef $table if $line !~ /^\|/;
		if ($line =~ /^(#+) (.*)$/)
		{
			$heading = $2;
			push @{ $self->{headings} },
			  { level => length $1, text => $2, anchor => anchor($2), line => $n };
		}
		elsif ($line =~ /^\|/)
		{
			my @cells = cells($line);

			if (!$table)
			{
				$table = { heading => $heading, line => $n, head => \@cells, rows => [] };
				push @{ $self->{tables} }, $table;
			}
			elsif ($line !~ /^[|\s:-]+$/)
			{
				push @{ $table->{rows} }, \@cells;
			}
			$self->fault($n, 'not as many cells as columns') if @cells != @{ $table->{head} };
		}
		push @{ $self->{prose} }, [ $n, $line ];
	}
	$self->fault($block->{line}, 'a block that is not closed') if $block;
	return $self;
}

sub fault
{
	my ($self, $line, $what) = @_;

	push @{ $self->{faults} }, "$self->{name}:$line: $what";
	return;
}

# The cells of a table's row.  A bar in code is written \|.
sub cells
{
	my ($line) = @_;
	my ($inner) = $line =~ /^\|(.*)\|\s*$/ or return ($line);

	return map { s/^\s+|\s+$//gr =~ s/\\\|/|/gr } split /(?<!\\)\|/, $inner, -1;
}

# GitHub's rule.
sub anchor { return lc($_[0]) =~ s/[^\w\- ]//gr =~ s/ /-/gr; }

# [line, target] of each link
sub links
{
	my ($self) = @_;
	my @links;

	foreach my $paragraph (@{ $self->{prose} })
	{
		push @links, map { [ $paragraph->[0], $_ ] }
		  ($paragraph->[1] =~ s/`[^`]*`//gr) =~ /\]\(([^)]+)\)/g;
	}
	return @links;
}

# What is wrong with a link's target, or nothing.  PAGES are all pages by name.
sub broken
{
	my ($self, $target, $pages) = @_;
	my ($file, $anchor) = $target =~ /^([^#]*)(?:#(.*))?$/;

	return if $target =~ /^https:/;
	return 'links are relative' if $file =~ /^\w+:|^\//;
	$file = $file eq '' ? $self->{name} : "$self->{folder}/$file";
	$file =~ s/(^|\/)\.\//$1/;
	1 while $file =~ s/(^|\/)[^\/.]+\/\.\.\//$1/;
	return "there is no $file" unless -e $file;
	return unless defined $anchor;
	return "$file is no page" unless $pages->{$file};
	return "$file has no heading #$anchor"
	  unless grep { $_->{anchor} eq $anchor } @{ $pages->{$file}{headings} };
	return;
}

# The text of the only block in which this is found.
sub example
{
	my ($self, $pattern) = @_;
	my @found = grep { /$pattern/ } map { join "\n", @{ $_->{lines} }, '' } @{ $self->{blocks} };

	die "$self->{name} has " . @found . " examples with $pattern" if @found != 1;
	return $found[0];
}

# The tables below a heading, without those of the headings below that.
sub below
{
	my ($self, $heading) = @_;

	return grep { $_->{heading} eq $heading } @{ $self->{tables} };
}

1;
