/*-------------------------------------------------------------------------
 *
 * lease.pml
 *		Model of how IDs of several servers stay unique when node numbers are
 *		leased: the registry, the two fences, and the cached lease.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run.
 *
 * Each atomic block is one step: at most one access to shared memory, one
 * commit, or one message.  Between any two steps, all others may do any number
 * of their own, and a server may crash.
 *
 *	Here						In src/ and snowflake_nodes--1.0.sql
 *	Run: limit, number, swap	generator.c take_anywhere(), move_to(), take()
 *	Run: ask, heed				lease_fetch.c
 *	Run: goes on, remember to publish	lease.c
 *	restart()					lease.c, at the start of the worker
 *	serve()						snowflake_lease_node()
 *
 * There are two servers.  One ID is watched, any one: a number, a time and a
 * sequence number.  Of times only that matters whether they are above that
 * of the watched ID: steps compare them, and take the larger or the smaller of
 * two.  So without TIMED a time is BELOW (or at it) or ABOVE, which stands for
 * all times there are.  Of numbers there is the watched one and the others, of
 * which the registry has as many as are asked for.
 *
 * Where the model simplifies, it allows more than the code does:
 *
 *	- Without TIMED all clocks show anything at each reading: a lease expires
 *	  at any time, there is no deadline, and any mark may be asked for.  That
 *	  leaves the second fence alone to keep IDs unique.
 *	- IDs other than the watched one are not drawn.  Drawing them raises words,
 *	  which only keeps others from being drawn.
 *	- After a restart the words are where the last ID was drawn, the least that
 *	  the durable mark can say; mark.pml is the model of that.  Here all is
 *	  reserved, up to the mark of the lease.
 *	- A request is answered, or is served and the answer is lost, or is lost;
 *	  with LATE one that was given up may be served at any later time, also
 *	  after a restart.
 *
 * -DCLONE lets the other server at any time become a copy of this one, as of
 * now, which goes on too; -DREBOOT lets a restart be one of the machine.
 *
 * -DTIMED has real time, 1 to TIMES, in which the clocks of the servers are
 * right; a time unit is one of the times, and a lease lasts TTL of them.  Then
 * a server must not be given a number while the other one believes that it
 * has it.  There is no other number then, so that there are fewer states.
 * With it, -DSTEPS lets the registry's clock step, -DPROMOTION lets the
 * registry be promoted, once, to a standby that stopped receiving at any time
 * before, while the servers run on, -DRELEASE has snowflake_release_node() for a server that is gone,
 * -DANY_CLOCK lets the servers' clocks show anything, and -DBEHIND anything up
 * to now.
 *
 * All else that can be defined leaves out something, see 030_model.pl.  With
 * -DUNIQUE_ONLY nothing but uniqueness is asserted.  -DNEVER=condition asserts
 * that the watched ID is not issued under that condition, to show that it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIMES
#define TIMES		5
#endif
#ifndef TTL
#define TTL			2
#endif
#define BELOW		1
#define ABOVE		2
#ifdef TIMED
#define END			(TIMES + TTL)
#else
#define END			ABOVE
#endif

#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/* Node numbers */
#define WATCHED		0
#define OTHER		1
#define NONE		2

/* An instance is the number of the server, or this */
#define ELSEWHERE	2

mtype = { idle, remembered, raised, numbered };

typedef Server
{
	/* The home database: the cached lease. */
	byte cached_node;
	byte cached_instance;
	byte cached_floor;
	byte cached_mark;

	/* Shared memory; the limit is the mark. */
	byte node;
	byte mark;
	byte word;

	/* The backend that is about to draw the watched ID. */
	bool covered;				/* saw that it is below the limit */
	byte with;					/* and has this number */
	bool drew;					/* it was drawn here, in any life */

	/* The worker, and the answer that is on its way or worked on. */
	mtype stage;
	bool answered;
	byte to_node;
	byte to_floor;
	byte to_mark;

	/*
	 * Tokens matter only as far as the registry's row has them: that of this
	 * start, or the cached one; and whether these are the same.
	 */
	bool holds;
	bool cached_holds;
	bool cached_now;

	/* A request that was given up is on its way; it is of an earlier start. */
	bool late;
	bool late_dead;

#ifdef TIMED
	byte cached_deadline;
	byte deadline;
	byte to_deadline;
	byte sent;					/* when the request was, 0: none is */
	bool sent_live;				/* with a lease that had not run out */

	/* As above, of the row on the registry's standby. */
	bool standby_holds;
	bool standby_cached_holds;
#endif
};
Server S[2];
#define my			S[me]
#define other(s)	S[1 - (s)]

/* The registry's row of the watched number. */
byte row_instance = ELSEWHERE;
byte row_floor = BELOW;
byte row_mark = BELOW;
#ifdef TIMED
byte row_expires;

byte now = 1;
bool stepped;					/* the registry's clock */
byte closed_until;

/* The standby, once it has stopped receiving. */
bool cut;
bool promoted;
byte standby_instance;
byte standby_floor;
byte standby_mark;
byte standby_expires;
#endif

/* What is granted, in serve(). */
byte mark;
byte floor;

#ifdef TIMED
byte watched;					/* time of the watched ID */
#else
#define watched		BELOW
#endif
bool issued;

/* For NEVER. */
#ifdef NEVER
bool restarted[2];				/* and not heard of the registry since */
bool taken[2];					/* by the other server from this one */
#define note(what)	what
#else
#define note(what)	skip
#endif

#ifdef UNIQUE_ONLY
#define check(condition)	skip
#else
#define check(condition)	assert(condition)
#endif

/* May both servers issue the watched ID? */
#define can_issue(s) \
	(S[s].node == WATCHED && S[s].word < watched && watched < S[s].mark)
#define disjoint	(!can_issue(0) || !can_issue(1))

/* Does the other server believe that it has the number? */
#ifdef TIMED
#define in_time(s)	(S[s].node == WATCHED && now < S[s].deadline)
#define alone(s)	(!in_time(1 - (s)))
#else
#define alone(s)	true
#endif

#if defined(TIMED) && !defined(ANY_CLOCK)
#ifdef BEHIND
#define clock_shows_it	(now >= watched)
#else
#define clock_shows_it	(now == watched)
#endif
#else
#define clock_shows_it	true
#endif

#ifdef TIMED
#define deadline_passed	(now >= my.deadline)
#else
#define deadline_passed	false
#endif

inline forget_answer(s)
{
	S[s].answered = false;
	S[s].to_node = NONE;
	S[s].to_floor = 0;
	S[s].to_mark = 0;
#ifdef TIMED
	S[s].to_deadline = 0;
	S[s].sent = 0;
	S[s].sent_live = false
#endif
}

#ifdef CACHE_ANY_INSTANCE
#define is_own_cache(s)	true
#else
#define is_own_cache(s)	(S[s].cached_instance == s)
#endif

/*
 * What was in memory is lost.  It goes on with the cached lease, if that is
 * its own.
 */
inline restart(s)
{
	S[s].covered = false;
	S[s].with = NONE;
	S[s].stage = idle;
	forget_answer(s);
	S[s].word = (S[s].drew -> watched : 0);
	S[s].node = NONE;
	S[s].mark = BELOW;
#ifdef TIMED
	S[s].deadline = 0;
#endif
	if
	:: S[s].cached_node != NONE && is_own_cache(s) ->
		S[s].node = S[s].cached_node;
		S[s].mark = S[s].cached_mark;
#ifdef TIMED
		S[s].deadline = S[s].cached_deadline;
#endif
#ifndef CACHE_NO_FLOOR
		S[s].word = MAX(S[s].word, S[s].cached_floor - 1)
#endif
	:: else ->
		S[s].cached_floor = 0;
		S[s].cached_mark = 0
#ifdef TIMED
		;
		S[s].cached_deadline = 0
#endif
	fi;
	S[s].holds = false;
#ifdef PROMOTION
	S[s].standby_holds = false;
#endif
	S[s].cached_now = false;
	S[s].late_dead = S[s].late;
	note(restarted[s] = true)
}

/*
 * The registry
 */
#define held(s)		(S[s].node != NONE -> S[s].node : S[s].cached_node)

#ifdef RENEW_ANY_INSTANCE
#define same_instance(s)	true
#else
#define same_instance(s)	(row_instance == s)
#endif
#define is_holder(s) \
	(S[s].holds || (S[s].cached_holds && same_instance(s) && \
		S[s].cached_node == WATCHED && held(s) == WATCHED))

#ifdef TIMED
#define expired		(stepped || row_expires <= now)
#ifdef NO_CLOSING
#define closed		false
#else
#define closed		(now < closed_until)
#endif
#ifdef TRUST_HELD
#define still_has(s)	(held(s) == WATCHED)
#else
#define still_has(s)	(held(s) == WATCHED && S[s].sent_live)
#endif
#ifdef NO_MARK_CONDITION
#define mark_passed		true
#elif defined(ANY_CLOCK)
#define mark_passed		true
#else
#define mark_passed		(row_mark <= now)
#endif
#ifdef RENEW_WHILE_CLOSED
#define renews(s)	is_holder(s)
#elif defined(RENEW_EXPIRED)
#define renews(s)	(is_holder(s) && (!closed || still_has(s)))
#else
#define renews(s)	(is_holder(s) && (!expired || (closed && still_has(s))))
#endif
#define claims(s)	(expired && \
	(closed -> still_has(s) : (mark_passed || is_holder(s))))
#else
#define renews(s)	is_holder(s)
#define claims(s)	true
#endif

/* As much above the mark before as the server asks for. */
inline choose_mark(s)
{
#if defined(TIMED) && !defined(ANY_CLOCK)
	mark = MAX(row_mark, MIN(END, S[s].sent + TTL))
#else
	mark = row_mark;
	do
	:: mark < END -> mark++
	:: break
	od
#endif
}

/* The row goes to a server: to its token of this start. */
inline grant(s)
{
	S[s].holds = true;
	S[s].cached_holds = S[s].cached_now;
	note(taken[1 - s] = taken[1 - s] || other(s).holds || other(s).cached_holds);
	other(s).holds = false;
	other(s).cached_holds = false;
	row_instance = s;
	row_mark = mark;
#ifdef TIMED
	row_expires = now + TTL
#endif
}

inline answer(s, node_number, least)
{
	S[s].to_node = node_number;
	S[s].to_floor = least;
	S[s].to_mark = mark
}

inline serve(s)
{
	if
	:: renews(s) ->
		check(alone(s));
		choose_mark(s);
#ifdef LOST_FLOOR
		answer(s, WATCHED, BELOW);
#else
		answer(s, WATCHED, row_floor);
#endif
#ifdef NO_MARK_RAISE
		mark = row_mark;
#endif
		grant(s)
	:: else ->
		if
		:: claims(s) ->
			check(alone(s));
			choose_mark(s);
			floor = row_mark;
#if defined(PROMOTION) && !defined(OLD_FLOOR) && !defined(NO_CLOSING)
			/* lost claims may have issued up to where the closing ends */
			if
			:: !closed -> floor = MAX(floor, closed_until)
			:: else
			fi;
#endif
			answer(s, WATCHED, floor);
			if
			:: row_floor = floor;
				grant(s)
#ifdef EARLY_ANSWER
			:: skip				/* the commit fails */
#endif
			fi
#ifndef TIMED
		/*
		 * Another number, or more of it; not with a lower mark than before,
		 * if it was not released, or the registry promoted.
		 */
		:: held(s) != OTHER || S[s].mark < END ->
			mark = END;
			answer(s, OTHER, BELOW)
		:: mark = BELOW;
			answer(s, OTHER, BELOW)
#endif
		:: true					/* refused */
		fi
	fi;
	mark = 0;
	floor = 0
}

/*
 * A server: a backend and the worker
 */

/* More of what it has. */
#ifdef SAME_NUMBER
#define goes_on(s)	(S[s].to_node == S[s].node)
#else
#define goes_on(s)	(S[s].to_node == S[s].node && S[s].to_floor <= S[s].cached_floor)
#endif

#ifdef FROM_ANSWER
#define to_the_deadline	(now + TTL)
#else
#define to_the_deadline	my.to_deadline
#endif

proctype Run(byte me)
{
	do
#ifdef NODE_FIRST
	:: atomic {
		my.with == NONE && my.node == WATCHED && !deadline_passed ->
		my.with = WATCHED
	}
	:: atomic {
		my.with == WATCHED && !my.covered && watched < my.mark && clock_shows_it ->
		my.covered = true
	}
#else
	/* limit: it is looked at with the deadline and the clock */
	:: atomic {
		!my.covered && my.node != NONE && !deadline_passed && clock_shows_it &&
		my.word < watched && watched < my.mark ->
		my.covered = true
	}

	/* number: an ID with another one is not watched */
	:: atomic {
		my.covered && my.with == NONE ->
		if
		:: my.node == WATCHED -> my.with = WATCHED
		:: else -> my.covered = false
		fi
	}
#endif

	/* swap */
	:: atomic {
		my.covered && my.with == WATCHED ->
		if
		:: my.word < watched ->
#ifdef NEVER
			assert(!(NEVER));
#endif
			my.word = watched;
			my.drew = true;
			assert(!issued);
			issued = true
		:: else
		fi;
		my.covered = false;
		my.with = NONE
	}

	/* ask */
#ifdef TIMED
	:: atomic {
		my.stage == idle && !my.answered && my.sent == 0 ->
		my.sent = now;
		my.sent_live = in_time(me)
	}
#endif
	:: atomic {
#ifdef TIMED
		my.sent > 0 &&
#endif
		my.stage == idle && !my.answered ->
		serve(me);
		if
		:: my.to_node != NONE ->
			my.answered = true;
#ifdef TIMED
			my.to_deadline = my.sent + TTL;
			my.sent = 0;
			my.sent_live = false
#endif
		:: forget_answer(me)
		fi
	}
#ifdef LATE
	:: atomic { my.stage == idle && !my.late -> my.late = true }
	:: atomic {
		my.late && !my.answered && my.stage == idle ->
		if
		:: !my.late_dead -> serve(me)
		/* with a token that nobody has, but perhaps the cache */
		:: else ->
			choose_mark(me);
			if
			:: row_instance == me && !other(me).holds && !other(me).cached_holds && !my.holds
			:: row_floor = row_mark
			fi;
			grant(me);
			my.holds = false;
			if
			:: my.cached_node == WATCHED -> my.cached_holds = true
			:: my.cached_holds = false
			fi;
			mark = 0
		fi;
		forget_answer(me);
		my.late = false;
		my.late_dead = false
	}
#endif

	/* heed: the number goes on; at once, as a restart between is no different */
	:: atomic {
		my.stage == idle && my.answered && goes_on(me) ->
#ifdef LOWER_LIMIT
		my.mark = my.to_mark;
#else
		my.mark = MAX(my.mark, my.to_mark);
#endif
		my.cached_mark = my.mark;
		my.cached_now = true;
		my.cached_holds = my.holds;
#ifdef PROMOTION
		S[me].standby_cached_holds = S[me].standby_holds;
#endif
#ifdef TIMED
		my.deadline = to_the_deadline;
		my.cached_deadline = my.deadline;
#endif
		note(restarted[me] = false);
		forget_answer(me);
		check(disjoint)
	}

	/* heed: it is another one, or it was another's in between */
	:: atomic {
		my.stage == idle && my.answered && !goes_on(me) ->
		my.cached_node = my.to_node;
		my.cached_instance = me;
		my.cached_floor = my.to_floor;
		my.cached_mark = my.to_mark;
		my.cached_now = true;
		my.cached_holds = my.holds;
#ifdef PROMOTION
		S[me].standby_cached_holds = S[me].standby_holds;
#endif
#ifdef TIMED
		my.deadline = 0;
		my.cached_deadline = to_the_deadline;
#endif
		my.stage = remembered
	}
	:: atomic {
		my.stage == remembered ->
#ifndef NO_RAISE
		my.word = MAX(my.word, my.mark - 1);
#endif
#ifndef IGNORE_FLOOR
		my.word = MAX(my.word, my.to_floor - 1);
#endif
		my.stage = raised
	}
	:: atomic {
		my.stage == raised ->
#ifdef LIMIT_FIRST
		my.mark = my.to_mark;
#else
		my.node = my.to_node;
#endif
		my.stage = numbered
	}
	:: atomic {
		my.stage == numbered ->
#ifdef LIMIT_FIRST
		my.node = my.to_node;
#else
		my.mark = my.to_mark;
#endif
#ifdef TIMED
		my.deadline = my.cached_deadline;
#endif
		my.stage = idle;
		note(restarted[me] = false);
		forget_answer(me);
		check(disjoint)
	}

#ifndef PROMOTION
	/* a crash, or a shutdown */
	:: atomic { restart(me) }
#endif
#ifdef REBOOT
	:: atomic {
		my.cached_node != NONE && my.cached_instance == me ->
		my.cached_instance = ELSEWHERE;
		if
		:: row_instance == me -> row_instance = ELSEWHERE
		:: else
		fi;
		restart(me)
	}
#endif
	od
}

#ifdef PROMOTION
inline no_standby()
{
	cut = false;
	standby_instance = ELSEWHERE;
	standby_floor = 0;
	standby_mark = 0;
	standby_expires = 0;
	S[0].standby_holds = false;
	S[1].standby_holds = false;
	S[0].standby_cached_holds = false;
	S[1].standby_cached_holds = false
}

/* The connection ends, though an answer may be under way. */
inline ask_again(s)
{
	if
	:: !S[s].answered -> forget_answer(s)
	:: else
	fi
}
#endif

#if defined(CLONE) || defined(TIMED)
proctype World()
{
	do
#ifdef CLONE
	:: atomic {
		S[1].drew = S[0].drew;
		S[1].cached_node = S[0].cached_node;
		S[1].cached_instance = S[0].cached_instance;
		S[1].cached_floor = S[0].cached_floor;
		S[1].cached_mark = S[0].cached_mark;
		S[1].cached_holds = S[0].cached_holds;
#ifdef PROMOTION
		S[1].standby_cached_holds = S[0].standby_cached_holds;
#endif
#ifdef TIMED
		S[1].cached_deadline = S[0].cached_deadline;
#endif
		restart(1)
	}
#endif
#ifdef TIMED
	:: atomic { now < TIMES -> now++ }
#endif
#ifdef STEPS
	:: atomic { !stepped -> stepped = true }
#endif
#ifdef RELEASE
	:: atomic {
		S[1].holds || S[1].cached_holds ->
		row_expires = 0;
		row_mark = MIN(row_mark, now + 1);
		S[1].holds = false;
		S[1].cached_holds = false;
#ifndef STILL_RUNS
		S[1].cached_node = NONE;
		restart(1)
#endif
	}
#endif
#ifdef PROMOTION
	:: atomic {
		!cut && !promoted ->
		cut = true;
		standby_instance = row_instance;
		standby_floor = row_floor;
		standby_mark = row_mark;
		standby_expires = row_expires;
		S[0].standby_holds = S[0].holds;
		S[1].standby_holds = S[1].holds;
		S[0].standby_cached_holds = S[0].cached_holds;
		S[1].standby_cached_holds = S[1].cached_holds
	}
	:: atomic {
		cut ->
		row_instance = standby_instance;
		row_floor = standby_floor;
		row_mark = standby_mark;
		row_expires = standby_expires;
		S[0].holds = S[0].standby_holds;
		S[1].holds = S[1].standby_holds;
		S[0].cached_holds = S[0].standby_cached_holds;
		S[1].cached_holds = S[1].standby_cached_holds;
		closed_until = now + TTL;
		no_standby();
		ask_again(0);
		ask_again(1);
		promoted = true
	}
#endif
	od
}
#endif

inline set_up(s)
{
	S[s].cached_node = NONE;
	S[s].cached_instance = ELSEWHERE;
	restart(s)
}

init
{
	atomic {
		set_up(0);
		set_up(1);
#ifdef TIMED
		select(watched : 1 .. TIMES);
#endif
		run Run(0);
		run Run(1);
#if defined(CLONE) || defined(TIMED)
		run World()
#endif
	}
}
