/*-------------------------------------------------------------------------
 *
 * registry.pml
 *		Model of the registry: what it gives to one server, a node number or a
 *		segment, no other server has, whatever the registry has lost.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run, and lease.pml and segment.pml for what a
 * server does within.
 *
 * Each atomic block is one step: one transaction of the registry, one message,
 * or what a server does under a lock.  Between any two steps, all others may do
 * any number of their own, time may pass, and a server may crash.
 *
 *	Here						In src/ and install/registry_*.sql
 *	arrive()					snowflake_registry_arrive()
 *	compare(), awaits			snowflake_registry_compare(), _awaited()
 *	serve_lease()				snowflake_nodes_serve(), _renew(), _claim()
 *	serve_segment()				snowflake_segments_serve(), _give(), _report()
 *	World: drop, create			snowflake_drop_tag(), snowflake_create_tag()
 *	World: release				snowflake_nodes_release()
 *	Run: ask, heed				lease_fetch.c, segment_fetch.c
 *	Run: draw					generator.c, segment_take()
 *
 * -DLEASES has a node number, which two servers want; -DSEGMENTS a tag with the
 * numbers 1 to NUMBERS, of which one is watched, any one.  With both there is one
 * record of the place for both.  Time is real, 1 to TIMES, and passes at the same
 * rate for all; a lease lasts TTL, and so does what a report is good for.
 *
 * -DPROMOTION lets the registry be promoted, once, to a standby that stopped
 * receiving at any time before: another place, so it closes.  -DRESTORE has a
 * restore to where the registry takes itself for the same, so that it only sees
 * that it was started: it is guarded.  The record as of then is R[1].
 * -DAGAIN also starts it once more at any time, with nothing lost.  -DUNNOTICED
 * has a restore that it does not see at all.
 *
 * How often a row was written is not counted, but whether it was since the backup,
 * and whether the server was told so: then it is ahead of what is restored.
 *
 * Beside the two servers there are
 *
 *	- one that was answered last before the backup or soon after, and proves,
 *	- the witness, whose row may be awaited: of a lease or of segments, and what
 *	  it knows of the latter it has forgotten when they are not valid any more,
 *	- with PROMOTION or RESTORE, others that take segments, in place of the second
 *	  server: what one of them has drawn before, and who is next, would be the
 *	  same with the parts exchanged.
 *
 * Where the model simplifies, it allows more than the code does:
 *
 *	- A server asks at any time, and in a report may leave the tag out.
 *	- A request is answered, or is served and the answer is lost, or is lost;
 *	  with LATE one that was given up may be served at any later time.
 *
 * -DREGISTERED has the first server register the number.  That does not run out,
 * and needs no answer to go on.  -DRELEASE has snowflake_release_node() for the
 * first server, which is gone.
 *
 * Without CLOCKS all clocks are right, and it is asserted that a server gets the
 * node number only while no other believes that it has it.  With it those of the
 * servers show anything, and that of the registry is AHEAD until the promotion;
 * one ID is watched, any time of it, and the registry grants no mark that is
 * further ahead than a lease and MARGIN.
 *
 * What no design can exclude is that nobody who is asked knows of what was lost:
 * so when the backup is so young that one can prove, a server whose row would be
 * awaited knows that.  -DUNTOLD is without that.  And
 *
 *	- The old primary is down when the new one is first asked.
 *	- A server that has drawn segments which were lost, or registered, or with
 *	  AHEAD issued with a lease that was lost, neither stops nor crashes before it
 *	  has asked the registry, and does so before a closing is over, or a guard that
 *	  runs out.  -DISOLATED is without that.
 *	- A backend that finds the deadline not passed, draws before it passes.
 *
 * All else that can be defined leaves out something, see 030_model.pl.
 * -DNEVER=condition asserts that nothing is given or drawn under that condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES		4
#endif
#ifndef TTL
#define TTL			1
#endif
#ifndef NUMBERS
#define NUMBERS		2
#endif
#ifndef AHEAD
#define AHEAD		0
#endif
#define MARGIN		1
#ifdef SEGMENTS
#define LAG			1			/* a younger row need not be written again */
#ifdef ROW_LEFT
#define is_recent(time)	((time) > 0)
#else
#define is_recent(time)	((time) > 0 && (time) + LAG >= now)
#endif
#else
#define LAG			0
#endif
#define FOREVER		100

/* The witness has */
#define OF_LEASE	0
#define OF_NUMBER	1			/* registered */
#define OF_SEGMENTS	2

#define NOBODY		2
#if defined(PROMOTION) || defined(RESTORE)
#define LOSS
#endif
#ifdef NEVER
bool opened_early;
bool ran_out;
#define check(gives)	assert(!(NEVER)); assert(gives)
#define note(what)		what
#else
#define check(gives)	assert(gives)
#define note(what)		skip
#endif
#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

mtype = { idle, asks_lease, asks_tag, asks_nothing, answered };

/* What the registry knows: R[0], and its standby or backup. */
typedef Record
{
	/* the place */
	bool noted;
	byte closed_until;
	byte guarded_from;
	byte guarded_until;			/* 0: not */
	bool proved;
	byte witness_at;			/* 0: no row */
	bool witness_reported;		/* since the start, like all that are "reported" */
	/* the lease of the number; changes are counted since the backup */
	byte changes;
	byte holder;
	byte expires;
	byte renewed;
	bool reported;
	byte floor;
	byte mark;
	byte max_id;
	byte incarnation;
	bool dropped;
	/* of this start of each server */
	byte reported_at[2];
	bool row_reported[2];
	bool row_newer[2];
	byte gone_at;				/* one that is awaited, of a server that is gone */
};
Record R[3];					/* the last is empty */
#define r	R[0]

typedef Server
{
	/* The request, and the answer. */
	mtype stage;
	mtype asked;
	byte sent_at;
	bool sent_live;				/* lease or segments */
	byte deadline;				/* 0: none */
	byte changes;
	bool ahead;
	bool to_lease;
	byte to_changes;
	bool to_ahead;
	byte floor;
	byte mark;
	byte to_floor;
	byte to_mark;
	bool issued;				/* the watched ID */
	/* incarnation and place 0 for not known */
	byte incarnation;
	byte seen;
	bool has;					/* the watched number */
	byte valid_until;
	byte place;
	bool drew;
	bool wants;
	byte sent_incarnation;
	byte sent_seen;
	byte to_incarnation;
	byte to_seen;
	bool to_has;
	byte to_place;
	bool to_shut;
	bool knows;					/* what is in the row ... */
	bool knows_more;			/* ... and more */
	bool to_knows;
	bool to_knows_more;
	byte late;					/* 0, or with seen + 1 */
	byte late_incarnation;
	bool late_reports;
	/* after the loss: it had an answer of all tags, and asked with its lease */
	bool contacted;
	bool claimed;
};
Server S[2];
#define my			S[me]
#define other(s)	S[1 - (s)]

byte now = 1;
byte watched;
bool issued;
bool cut;						/* R[1] is of then */
byte cut_at;
bool lost;						/* the record is that from now on */
bool moved;						/* and the place another one, or ... */
bool started;					/* ... started again */
byte started_at;
bool again;
bool witness_ahead;
byte witness_until;				/* it has something valid */
byte witness;					/* OF_LEASE, OF_NUMBER or OF_SEGMENTS */
bool gave;						/* something that the backup lacks */
bool made;

/* In one step. */
bool is_open;
bool is_ahead;
bool proves;
byte asker;
byte known;
byte last;
byte mark;

/*
 * The registry's place and state
 */
#ifdef CLOCKS
#define at		(now + (lost -> 0 : AHEAD))
#else
#define at		now
#endif
#define closed		(at < r.closed_until)
#define guarded		(r.guarded_until > at)
#define shut		(closed || guarded)

#ifdef AGAIN
#define may_start	(started || !again)
#else
#define may_start	started
#endif

#ifdef LOSS
inline arrive()
{
	if
	:: r.guarded_until > 0 && r.guarded_until <= at ->
		r.closed_until = MAX(r.closed_until, r.guarded_until);
		r.guarded_until = 0;
		note(ran_out = true)
	:: else
	fi;
	if
	:: !r.noted
	:: r.noted && moved ->
#ifndef NO_CLOSING
		r.closed_until = MAX(r.closed_until, at + TTL);
#endif
	:: r.noted && started && !moved ->
#ifndef FROM_NOW
		started_at = (guarded -> MIN(r.guarded_from, started_at) : started_at);
#endif
#ifndef NO_GUARD
		r.guarded_from = started_at;
		r.guarded_until = MAX(r.guarded_until, at + TTL);
#endif
#ifndef STILL_PROVED
		r.proved = false;
#endif
		r.witness_reported = false;
		r.reported = false;
		r.row_reported[0] = false;
		r.row_reported[1] = false
	:: else
	fi;
	r.noted = true;
	moved = false;
	started = false;
	started_at = 0
}
#else
#define arrive()	skip
#endif

#ifdef RESTORE
/* Who may have had something at the start, and has not reported since. */
#define ran_at(time, row_at)	((row_at) > 0 && (row_at) + TTL + LAG > (time))
#define ran(row_at)		ran_at(r.guarded_from, row_at)
#ifdef LEASES
#define told_until(n)	(R[n].expires == FOREVER -> R[n].renewed + TTL : R[n].expires)
#define lease_ran		(told_until(0) > r.guarded_from)
#define awaits_lease	(r.holder != NOBODY && !r.reported && lease_ran)
#else
#define awaits_lease	false
#endif
#ifdef SEGMENTS
#define awaits_row(s)	(!r.row_reported[s] && ran(r.reported_at[s]))
#define awaits_tags(except)	(ran(r.gone_at) || (except != 0 && awaits_row(0)) || \
	(except != 1 && awaits_row(1)))
#else
#define awaits_tags(except)	false
#endif
#define awaits_witness	(!r.witness_reported && ran(r.witness_at))

/* Except who asks: 0 and 1 the row of segments, 2 the lease, 3 the witness, 4 none. */
#ifdef NO_WAIT
#define awaits(except)	false
#elif defined(WAIT_FOR_LEASES)
#define awaits(except)	((except != 2 && awaits_lease) || (except != 3 && witness != OF_SEGMENTS && awaits_witness))
#elif defined(WAIT_FOR_SEGMENTS)
#define awaits(except)	(awaits_tags(except) || (except != 3 && witness == OF_SEGMENTS && awaits_witness))
#else
#define awaits(except)	((except != 2 && awaits_lease) || awaits_tags(except) || \
	(except != 3 && awaits_witness))
#endif
#ifdef NO_PROOF
#define is_proved	true
#else
#define is_proved	r.proved
#endif

/* What one was told before the start, if that was not less than was written. */
#if defined(STALE) && defined(PROVED_AGAIN)
#define may_prove(reported)	(reported)
#elif defined(STALE)
#define may_prove(reported)	false
#else
#define may_prove(reported)	(!(reported))
#endif

/* "is_ahead" and "proves" say what the server knows. */
inline compare()
{
	if
#ifdef AHEAD_GOES_ON
	:: is_ahead
#else
	:: is_ahead ->
		r.closed_until = MAX(r.closed_until,
			(guarded -> r.guarded_until : (closed -> 0 : at + TTL)));
		r.guarded_until = 0
#endif
	:: !is_ahead && guarded ->
		r.proved = r.proved || proves;
		if
		:: is_proved && !awaits(asker) -> r.guarded_until = 0; note(opened_early = true)
		:: else
		fi
	:: else
	fi;
	is_ahead = false;
	proves = false;
	asker = 0
}
#endif

/*
 * Node numbers
 */
#ifdef LEASES
#ifdef REGISTERED
#define registers(s)	((s) < REGISTERED)
#else
#define registers(s)	false
#endif
#define in_time(s)		(S[s].deadline > now)
#define runs			(r.expires > at)

inline grant(s)
{
#ifndef CLOCKS
	check(!in_time(1 - s));
#endif
	r.holder = s;
	r.renewed = at;
#ifdef REGISTERED_EXPIRES
	r.expires = at + TTL;
#else
	r.expires = (registers(s) -> FOREVER : MAX(at + TTL, (r.expires == FOREVER -> 0 : r.expires)));
#endif
	r.reported = true;
	gave = gave || (cut && !lost);
	S[s].to_lease = true
}

inline claim(s)
{
	r.expires = 0;
	r.changes = r.changes + (cut || lost -> 1 : 0);
	grant(s)
}

/* Any clock of the server: it wants marks that are as far ahead as it likes. */
#ifdef CLOCKS
#define limit		(at + TTL + MARGIN)
#ifdef NO_CAP
#define cap			FOREVER
#else
#define cap			limit
#endif
#define END			(TIMES + AHEAD + TTL + MARGIN + 1)
#define lost_floor	(r.closed_until > 0 -> r.closed_until + MARGIN : 0)

inline choose_mark(s)
{
#ifdef REPORTS_LESS
	mark = (S[s].issued -> watched + 1 : 1);
#else
	mark = MAX((S[s].issued -> watched + 1 : 1), (S[s].sent_live -> S[s].mark : 0));
#endif
	do
	:: mark < END -> mark++
	:: break
	od
}
#endif

#ifdef TRUST_HELD
#define still_has(s)	true
#else
#define still_has(s)	S[s].sent_live
#endif
#ifdef RENEW_WHILE_CLOSED
#define may_renew(s)	true
#else
#define may_renew(s)	((runs && !closed) || still_has(s) || !shut)
#endif
#ifdef PROVED_BY_ANY
#define was_lately(s)	true
#else
#define was_lately(s)	(S[s].sent_live && (r.expires < FOREVER || lease_ran))
#endif

inline serve_lease(s)
{
	arrive();
#ifdef RESTORE
#ifndef SEEN_ALONE
	is_ahead = (lost && r.holder == s && S[s].ahead);
#endif
#ifndef RENEWALS_ALONE
	is_ahead = is_ahead || (lost && S[s].changes > r.changes);
#endif
	proves = (r.holder == s && may_prove(r.reported) && !(lost && S[s].ahead) && was_lately(s));
	if
	:: is_ahead ->
		r.changes = (S[s].changes > r.changes -> S[s].changes + 1 : r.changes);
		S[s].ahead = S[s].ahead && r.holder != s
	:: else
	fi;
	asker = (r.holder == s -> 2 : 4);
	compare();
#endif
#ifdef CLOCKS
	choose_mark(s);
#endif
	if
	:: r.holder == s && may_renew(s) ->
#ifdef CLOCKS
		if
		:: !runs && r.closed_until > 0 && r.renewed <= r.closed_until && !closed ->
			r.floor = MAX(r.floor, lost_floor)
		:: else
		fi;
#ifdef CAP_REGISTERED
		r.mark = MAX(r.mark, MIN(mark, cap));
#else
		r.mark = MAX(r.mark, (registers(s) -> mark : MIN(mark, cap)));
#endif
#endif
		grant(s)
	:: r.holder != s && !runs && (!shut || still_has(s)) ->
#ifdef CLOCKS
		if
		:: mark > cap && !still_has(s)
#ifdef FORGET_REFUSED
		:: mark > cap && still_has(s)
		:: mark <= cap ->
#else
		:: mark <= cap || still_has(s) ->
#endif
#ifdef OLD_FLOOR
			r.floor = r.mark;
#else
			r.floor = MAX(r.mark, (shut -> 0 : lost_floor));
#endif
			r.mark = MAX(r.mark, mark);
			claim(s);
			S[s].to_lease = (mark <= cap)
		fi
#else
		claim(s)
#endif
	:: else						/* refused */
	fi;
#ifdef CLOCKS
	if
	:: S[s].to_lease ->
		S[s].to_floor = r.floor;
		S[s].to_mark = (registers(s) -> mark : r.mark)
	:: else
	fi;
	mark = 0;
#endif
	S[s].to_changes = r.changes;
	S[s].claimed = S[s].claimed || (lost && S[s].sent_live);
	S[s].to_ahead = (cut && !lost)
}
#endif

/*
 * Segments
 */
#ifdef SEGMENTS
/* The place that servers are told is another one after each closing. */
#ifdef PLACE_ALONE
#define here	1
#elif defined(PROMOTION)
#define here	(1 + lost + r.closed_until * 2)
#else
#define here	(1 + r.closed_until * 2)
#endif

#ifdef RESTORE
#ifdef SEEN_ALONE
#define reports_more(s)		false
#else
#define reports_more(s)		(S[s].knows_more || r.reported_at[s] == 0)
#endif
#ifdef REPORTS_ALONE
#define saw_more(number)	false
#else
#define saw_more(number)	((number) > r.max_id)
#endif

inline compare_tags(s, reports, number)
{
	is_ahead = lost && ((reports && reports_more(s)) || saw_more(number));
	proves = reports && r.reported_at[s] > 0 && !(lost && S[s].knows_more) &&
		may_prove(r.row_reported[s]);
	if
	:: is_ahead -> S[s].knows_more = false
	:: else
	fi;
#ifndef EXCEPT_ANYWAY
	asker = (reports -> s : 4);
#else
	asker = s;
#endif
	compare()
}

/* Write the row of server s, when that is due; and what it is told. */
inline record(s, reports, takes)
{
	if
#ifndef ROW_ANYWAY
	:: guarded && !(reports)
#ifdef TELL_ANYWAY
		-> S[s].to_knows = (r.reported_at[s] > 0)
#endif
#endif
	:: else ->
		if
		:: ((reports) || r.reported_at[s] > 0 || S[s].asked != asks_nothing) &&
			((takes) || !r.row_reported[s] || !is_recent(r.reported_at[s])) ->
			r.reported_at[s] = (lost && !may_start -> 1 : now);
			r.row_reported[s] = true;
			r.row_newer[s] = (cut && !lost)
		:: else
		fi;
		S[s].to_knows = (r.reported_at[s] > 0);
		S[s].to_knows_more = r.row_newer[s]
	fi
}
#else
#define compare_tags(s, reports, number)	skip
#define record(s, reports, takes)	skip
#endif

inline serve_segment(s, from_incarnation, from_seen, from_wants, reports)
{
	arrive();
	known = (!r.dropped && from_incarnation == r.incarnation -> from_seen : 0);
	compare_tags(s, reports, known);
#ifdef NO_REPORT
	known = 0;
#endif
	known = MAX(r.max_id, known);
	last = known;
	is_open = from_wants && !r.dropped && !shut &&
		(from_incarnation == 0 || from_incarnation == r.incarnation);
	if
	:: is_open ->
		do
		:: last < NUMBERS -> last++
		:: break
		od;
		S[s].to_has = (known < watched && watched <= last)
	:: else
	fi;
	S[s].to_seen = (is_open -> last : 0);
	S[s].to_incarnation = (r.dropped -> 0 : r.incarnation);
	S[s].to_place = here;
	S[s].to_shut = shut;
	record(s, reports, is_open && last > known);
	gave = gave || (cut && !lost && s == 0 && S[s].to_has);
	if
	:: r.max_id = last
#ifdef EARLY_ANSWER
	:: skip						/* the commit fails */
#endif
	fi;
	known = 0;
	last = 0;
	is_open = false
}

inline issue()
{
	check(!issued);
	issued = true
}

#endif

inline forget_answer(s)
{
	S[s].to_incarnation = 0;
	S[s].to_seen = 0;
	S[s].to_has = false;
	S[s].to_knows = false;
	S[s].to_knows_more = false;
	S[s].to_place = 0;
	S[s].to_shut = false
}

inline forget_request(s)
{
	S[s].stage = idle;
	S[s].asked = idle;
	S[s].sent_at = 0;
	S[s].sent_live = false;
	S[s].to_lease = false;
	S[s].to_changes = 0;
	S[s].to_ahead = false;
	S[s].to_floor = 0;
	S[s].to_mark = 0;
	S[s].wants = false;
	S[s].sent_incarnation = 0;
	S[s].sent_seen = 0;
	forget_answer(s)
}

inline forget_tag(s)
{
	S[s].incarnation = 0;
	S[s].seen = 0;
	S[s].has = false
}

/* What in memory is lost. */
#ifdef SEGMENTS
inline restart(s)
{
	forget_request(s);
	forget_tag(s);
	S[s].valid_until = 0;
	S[s].place = 0;
	/* it has another row from now on; one that is awaited still is */
	if
	:: lost && r.reported_at[s] > 0 && (started || !r.row_reported[s]) ->
		r.gone_at = MAX(r.gone_at, r.reported_at[s])
	:: else
	fi;
	r.reported_at[s] = 0;
	r.row_reported[s] = false;
	r.row_newer[s] = false;
	R[1].reported_at[s] = 0;
	S[s].knows = false;
	S[s].knows_more = false
}
#endif

/* What was lost is still in use here, and the registry does not know. */
#if !defined(LOSS) || defined(ISOLATED)
#define owes_tag(s)		false
#define owes_number(s)	false
#else
#ifdef SEGMENTS
#define owes_tag(s)		(S[s].drew && ((cut && !lost && R[1].max_id < watched) || \
	(lost && !S[s].contacted)))
#else
#define owes_tag(s)		false
#endif
#if defined(CLOCKS) && AHEAD > 0
#define owes_number(s)	(lost && (S[s].issued || registers(s)) && in_time(s) && !S[s].claimed)
#elif defined(REGISTERED)
#define owes_number(s)	(lost && registers(s) && in_time(s) && r.holder != s && !S[s].claimed)
#else
#define owes_number(s)	false
#endif
#endif
#define owes(s)			(owes_tag(s) || owes_number(s))

/* IDs with the node number: they are above its floor and below its mark. */
#ifdef CLOCKS
#define may_issue(s)	(in_time(s) && S[s].floor <= watched && watched < S[s].mark && !S[s].issued)
#endif

#ifdef NO_DEADLINE
#define valid(s)		true
#else
#define valid(s)		(now < S[s].valid_until)
#endif
#ifdef FROM_ANSWER
#define counts_from		now
#else
#define counts_from		my.sent_at
#endif
#define reports(s)		(S[s].knows && S[s].sent_live)
#if defined(PARTIAL_FIRST) || defined(PROMOTION)
#define may_be_partial	true
#else
#define may_be_partial	(!lost || my.contacted)
#endif

#ifdef REGISTER_LATE
#define COMES_LATE		false
#else
#define COMES_LATE		(now >= my.sent_at + TTL)
#endif

#ifdef LEASES
inline ask_lease()
{
	my.stage = asks_lease;
	my.asked = asks_lease;
	my.sent_at = now;
	my.sent_live = in_time(me)
}

inline heed_lease()
{
	if
	/* it has run out meanwhile, or came too late: no answer */
	:: (my.sent_live && !in_time(me)) || COMES_LATE
	:: else ->
		if
		:: my.to_lease ->
			my.deadline = (registers(me) -> FOREVER : counts_from + TTL);
			my.changes = my.to_changes;
			my.ahead = my.to_ahead;
#ifdef CLOCKS
			my.floor = MAX(my.floor, my.to_floor);
			my.mark = MAX(my.mark, my.to_mark)
#endif
		:: else -> my.deadline = 0
		fi
	fi
}
#endif

#ifdef SEGMENTS
inline ask_tag()
{
	my.sent_at = now;
	my.sent_live = valid(me);
	if
	:: my.stage = asks_tag;
		my.sent_incarnation = my.incarnation;
		my.sent_seen = my.seen;
		if
		:: my.wants = true
		:: true
		fi
#if defined(LOSS) && !defined(AT_ONCE)
	/* a new connection begins with a report of all */
	:: may_be_partial -> my.stage = asks_nothing
#endif
	fi;
	my.asked = my.stage
}

inline serve_tag()
{
	if
	:: my.stage == asks_tag ->
		my.contacted = lost;
		serve_segment(me, my.sent_incarnation, my.sent_seen, my.wants, reports(me))
	:: else ->
		arrive();
#ifdef HEED_ANYWHERE
		my.contacted = lost;
#endif
		compare_tags(me, reports(me), 0);
		record(me, reports(me), false);
		my.to_place = here;
		my.to_shut = shut
	fi;
	my.wants = false;
	my.sent_live = false;
	my.sent_incarnation = 0;
	my.sent_seen = 0
}

inline heed_tag()
{
	if
#ifndef HEED_ANYWHERE
	/* it has moved, and was not told all: no answer */
	:: my.asked == asks_nothing && my.to_place != my.place
#endif
	:: else ->
#ifndef NO_FORGET
		if
		:: my.place != 0 && my.place != my.to_place && !valid(me) -> forget_tag(me)
		:: else
		fi;
#endif
		if
		/* without numbers it need not heed one that is not open */
		:: my.to_shut && !my.has ->
#ifdef KEPT_COUNT
			skip
#else
			my.knows = my.knows && valid(me)
#endif
		:: my.place = my.to_place;
			my.knows = my.to_knows;
			my.knows_more = my.to_knows_more
		fi;
		my.valid_until = counts_from + TTL;
		if
		:: my.asked == asks_tag ->
			if
			:: my.to_incarnation != my.incarnation ->
				forget_tag(me);
				my.incarnation = my.to_incarnation
			:: else
			fi;
			my.seen = MAX(my.seen, my.to_seen);
			my.has = my.has || my.to_has
		:: else
		fi
	fi
}

#ifdef LOSS
#define has_tag		(me == 0)
#else
#define has_tag		true
#endif
#endif

proctype Run(byte me)
{
	do
#ifdef CLOCKS
	:: atomic {
		may_issue(me) ->
		check(!issued);
		issued = true;
		my.issued = true
	}
#endif
#ifdef SEGMENTS
	:: atomic {
		my.has && valid(me) ->
		issue();
		my.drew = true;
		my.has = false
	}
#endif

#ifdef AT_ONCE
#ifdef LEASES
	:: atomic {
		me == 0 ->
		ask_lease();
		serve_lease(me);
		if
		:: true -> heed_lease()
		:: true
		fi;
		forget_request(me)
	}
#endif
#ifdef SEGMENTS
	:: atomic {
		has_tag ->
		ask_tag();
		serve_tag();
		if
		:: true -> heed_tag()
		:: true
		fi;
		forget_request(me)
	}
#endif
#else
#ifdef LEASES
	:: atomic { my.stage == idle -> ask_lease() }
	:: atomic {
		my.stage == asks_lease ->
		serve_lease(me);
		if
		:: my.stage = answered
		:: forget_request(me)
		fi
	}
	:: atomic {
		my.stage == answered && my.asked == asks_lease ->
		heed_lease();
		forget_request(me)
	}
#endif
#ifdef SEGMENTS
	:: atomic { has_tag && my.stage == idle -> ask_tag() }
	:: atomic {
		my.stage == asks_tag || my.stage == asks_nothing ->
		serve_tag();
		if
		:: my.stage = answered
		:: forget_request(me)
		fi
	}
	:: atomic {
		my.stage == answered && my.asked != asks_lease ->
		heed_tag();
		forget_request(me)
	}
#endif
#ifdef LATE
	:: atomic {
		my.stage == asks_tag && my.late == 0 ->
		my.late = my.sent_seen + 1;
		my.late_incarnation = my.sent_incarnation;
		my.late_reports = reports(me);
		forget_request(me)
	}
	:: atomic {
		my.late > 0 && my.stage == idle ->
		serve_segment(me, my.late_incarnation, my.late - 1, true, my.late_reports);
		my.late = 0;
		my.late_incarnation = 0;
		my.late_reports = false;
		forget_request(me)
	}
#endif
#endif

	/* a crash, or a shutdown */
#ifdef SEGMENTS
	:: atomic { has_tag && !owes_tag(me) && (my.place != 0 || my.stage != idle) -> restart(me) }
#endif
	od
}

/* What cannot matter any more, so that there are fewer states. */
inline tidy_up()
{
	if
	:: lost && !guarded && !may_start ->
		r.guarded_from = 0;
		r.proved = false;
		r.witness_at = 0;
		r.witness_reported = false;
		witness_until = 0;
		witness_ahead = false;
		r.gone_at = 0;
		r.reported_at[0] = (r.reported_at[0] > 0 -> 1 : 0);
		r.reported_at[1] = (r.reported_at[1] > 0 -> 1 : 0);
		r.renewed = 0;
		cut_at = 0
	:: else
	fi
}

#ifdef LOSS
inline copy(to, from)
{
	R[to].noted = R[from].noted;
	R[to].closed_until = R[from].closed_until;
	R[to].guarded_from = R[from].guarded_from;
	R[to].guarded_until = R[from].guarded_until;
	R[to].proved = R[from].proved;
	R[to].witness_at = R[from].witness_at;
	R[to].witness_reported = R[from].witness_reported;
	R[to].changes = R[from].changes;
	R[to].holder = R[from].holder;
	R[to].expires = R[from].expires;
	R[to].renewed = R[from].renewed;
	R[to].reported = R[from].reported;
	R[to].floor = R[from].floor;
	R[to].mark = R[from].mark;
	R[to].max_id = R[from].max_id;
	R[to].incarnation = R[from].incarnation;
	R[to].dropped = R[from].dropped;
	R[to].reported_at[0] = R[from].reported_at[0];
	R[to].row_reported[0] = R[from].row_reported[0];
	R[to].gone_at = R[from].gone_at
}

#ifdef RESTORE
/* See above: may what was lost be in use, and may nobody who is awaited know of it? */
#ifdef LEASES
#define lease_tells		(R[1].holder != NOBODY && S[R[1].holder].ahead && told_until(1) > now)
#else
#define lease_tells		false
#endif
#ifdef SEGMENTS
#define row_tells		(ran_at(now, R[1].reported_at[0]) && S[0].knows_more)
#else
#define row_tells		false
#endif
#define is_old			(now >= cut_at + TTL + LAG)
#if defined(UNTOLD) || defined(STALE)
#define assumed			true
#elif defined(UNNOTICED) && defined(LEASES)
#define assumed			((R[1].holder == 0 && S[0].ahead) || (R[1].holder == 1 && S[1].ahead) || \
	S[0].changes > 0 || S[1].changes > 0)
#elif defined(UNNOTICED)
#define assumed			true
#else
#define assumed			(!gave || is_old || (witness_ahead && ran_at(now, R[1].witness_at)) || \
	lease_tells || row_tells)
#endif
#else
#define assumed			true
#endif

/* Connections end, though answers may be under way. */
inline lose_request(s)
{
	if
	:: S[s].stage != answered -> forget_request(s)
	:: else
	fi
}
#endif

#if defined(UNNOTICED) && defined(LEASES)
inline asks_first(s)
{
	S[s].sent_live = in_time(s);
	serve_lease(s);
	forget_request(s)
}
#endif

#ifdef PROVED_BY_ANY
#define witness_was_lately	true
#elif defined(PROVED_BY_REGISTERED)
#define witness_was_lately	(witness_until > 0 || witness == OF_NUMBER)
#else
#define witness_was_lately	(witness == OF_NUMBER -> ran(r.witness_at) : witness_until > 0)
#endif
#define ends_next(until)	((until) == at + 1)
#ifdef CLOCKS
#define runs_out_next(s)	(owes_number(s) && S[s].deadline == now + 1)
#else
#define runs_out_next(s)	false
#endif

proctype World()
{
	do
	:: atomic {
		now < TIMES && !((ends_next(r.closed_until) || ends_next(r.guarded_until)) && (owes(0) || owes(1))) &&
		!runs_out_next(0) && !runs_out_next(1) ->
		now++;
		S[0].deadline = (S[0].deadline <= now -> 0 : S[0].deadline);
		S[1].deadline = (S[1].deadline <= now -> 0 : S[1].deadline);
		S[0].valid_until = (S[0].valid_until <= now -> 0 : S[0].valid_until);
		S[1].valid_until = (S[1].valid_until <= now -> 0 : S[1].valid_until);
		witness_until = (witness_until <= now -> 0 : witness_until);
		tidy_up()
	}
#ifdef RELEASE
	/* of a server that is gone */
	:: atomic {
		r.holder == 0 ->
		S[0].deadline = 0;
		forget_request(0);
		r.holder = NOBODY;
		r.expires = MIN(r.expires, at);
#ifdef NO_MARK
		r.mark = 0
#endif
	}
#endif
#ifdef DROP
	:: atomic { !r.dropped && !made -> r.dropped = true }
	:: atomic {
		r.dropped && !made ->
		r.dropped = false;
		made = true;
		r.incarnation = 2;
#ifdef NO_TOMBSTONE
		r.max_id = 0
#endif
	}
#endif
#ifdef LOSS
#if defined(AT_ONCE) && defined(LEASES)
	/* others claim the number, and do no more with it */
	:: atomic {
		lost ->
		arrive();
		if
		:: !shut && !runs && r.holder != 0 -> check(!in_time(0))
		:: else
		fi
	}
#endif
#ifdef SEGMENTS
	/*
	 * Others take a segment, and draw it at once or never.  (Without "true" the
	 * "else" of the first statement would be one of all that World does.)
	 */
	:: atomic {
		true ->
#ifdef AGAIN
		serve_segment(1, 0, 0, true, lost && S[1].knows);
		S[1].knows = S[1].to_knows;
#else
		serve_segment(1, 0, 0, true, false);
#endif
		if
		:: !lost -> r.reported_at[1] = 0; r.row_reported[1] = false; r.row_newer[1] = false
		:: else
		fi;
		if
		:: S[1].to_has && lost -> issue()
		:: true
		fi;
		forget_answer(1)
	}
#endif
	:: atomic {
		!cut ->
		cut = true;
		cut_at = now;
		r.changes = 0;
		S[0].changes = 0;
		S[1].changes = 0;
		S[0].to_changes = 0;
		S[1].to_changes = 0;
		copy(1, 0)
	}
	:: atomic {
		cut && !lost && assumed ->
		lost = true;
#if defined(UNNOTICED) && defined(SEGMENTS)
		last = r.max_id;
#endif
		copy(0, 1);
		copy(1, 2);
		lose_request(0);
		lose_request(1);
#ifdef PROMOTION
		moved = true
#elif !defined(UNNOTICED)
		started = true;
		started_at = now
#elif !defined(UNTOLD)
		/* the first that asks knows more: by its row, or by what it has seen */
		if
#ifdef LEASES
		:: R[0].holder == 0 && S[0].ahead -> asks_first(0)
		:: R[0].holder == 1 && S[1].ahead -> asks_first(1)
		:: S[0].changes > r.changes -> asks_first(0)
		:: S[1].changes > r.changes -> asks_first(1)
#endif
#ifdef SEGMENTS
#ifndef SEEN_ALONE
		:: is_ahead = true; compare()
#endif
		:: saw_more(last) -> is_ahead = true; compare(); r.max_id++
#ifdef REPORTS_ALONE
		:: last > r.max_id -> r.max_id++
#endif
#endif
		fi;
		last = 0
#endif
	}
#endif
#ifdef AGAIN
	:: atomic {
		!again ->
		again = true;
		started_at = (started -> MIN(started_at, now) : now);
		started = true;
		lose_request(0);
		lose_request(1)
	}
#endif
#ifdef RESTORE
	/* the witness reports, which is written unless its row is young */
	:: atomic {
		!lost ->
		if
		:: witness_ahead = cut;
			r.witness_at = now;
			r.witness_reported = true
#ifdef SEGMENTS
		:: witness == OF_SEGMENTS && is_recent(r.witness_at)
#endif
		fi;
		witness_until = now + TTL
	}
	/* what it knows is compared; or it has forgotten that */
	:: atomic {
		lost && r.witness_at > 0 && (witness != OF_SEGMENTS || witness_until > 0) ->
		arrive();
#ifndef SEEN_ALONE
		is_ahead = witness_ahead;
#endif
		proves = may_prove(r.witness_reported) && !witness_ahead && witness_was_lately;
		witness_ahead = false;
		r.witness_reported = true;
		asker = 3;
		compare()
	}
	:: atomic {
		lost && r.witness_at > 0 && witness == OF_SEGMENTS && witness_until == 0 ->
		arrive();
#ifdef EXCEPT_ANYWAY
		asker = 3;
#else
		asker = 4;
#endif
		compare();
		if
#ifdef KEPT_COUNT
		:: witness_until = now + TTL
#endif
#ifdef TELL_ANYWAY
		:: witness_until = now + TTL;
			witness_ahead = false
#endif
#ifdef ROW_ANYWAY
		:: true ->
#else
		:: !guarded ->
#endif
			witness_until = now + TTL;
			witness_ahead = false;
			r.witness_reported = true
		:: guarded
		fi
	}
#ifdef FORGETS
	:: atomic { lost && witness_ahead -> witness_ahead = false }
#endif
	/* another one that was answered last before the backup or soon after */
#ifndef STALE
	:: atomic { lost && guarded && !r.proved && !is_old -> r.proved = true }
#endif
#endif
	od
}

init
{
	atomic {
		S[0].stage = idle;
		S[1].stage = idle;
		S[0].asked = idle;
		S[1].asked = idle;
#ifndef NO_NOTE
		r.noted = true;
#endif
		r.holder = NOBODY;
		r.incarnation = 1;
#ifdef SEGMENTS
		select(watched : 1 .. NUMBERS);
#endif
#ifdef CLOCKS
		select(watched : 1 .. END - 1);
#endif
#ifdef RESTORE
		if
#ifdef LEASES
		:: witness = OF_LEASE
		:: witness = OF_NUMBER
#endif
#ifdef SEGMENTS
		:: witness = OF_SEGMENTS
#endif
		fi;
#endif
		run Run(0);
		run Run(1);
		run World()
	}
}
