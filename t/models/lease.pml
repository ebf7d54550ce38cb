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
 * commit, or one message; what nobody else can see goes along with such a step.
 * Between any two steps, all others may do any number of their own, a server may
 * crash, and each of its two processes may end alone and start again: then its
 * shared memory stays, and what the process had for itself is lost.
 *
 *	Here						In src/ and install/registry_nodes.sql
 *	Backend: limit, number, swap	generator.c take_anywhere(), move_to(), take()
 *	Services: ask, heed			lease_fetch.c
 *	Services: remember to allow	lease.c
 *	Writer: raise to taken, publish	mark.c
 *	restart()					lease.c, what is recalled at the start
 *	serve()						snowflake_lease_node()
 *
 * "Services" is the process that talks to the registry, "Writer" the one that
 * writes the mark.  Only the latter writes what backends draw with: the words,
 * the limit, and the number.  So a number goes from the one to the other:
 *
 *	1. remember	services: the deadline of the number so far is over, and so is
 *				one that waits for step 7; the new number is remembered, with
 *				its floor and mark, durably
 *	2. offer	services: number, floor and mark are written; then it counts as
 *				offered.  Nothing is offered before the last offer was taken
 *	3. raise	writer: of what could be issued so far nothing is left, nor of
 *				what is below the floor
 *	4. number	writer: the mark of the lease, its floor, and the number
 *	5. publish	writer: the limit, never lower; also later, or in between, as
 *				far as the mark of the number allows
 *	6. taken	writer: services may go on
 *	7. allow	services: the deadline, unless the lease was lost meanwhile
 *
 * The floor in shared memory is that of the number there: services look at it to
 * tell whether the words are raised to that of an answer, so that the number can
 * just go on.  So the writer writes it, with the number.  If services did so when
 * they remember it, and ended before they offer it, the next ones would go on
 * without that.
 *
 * What one server does within can be seen by the other only in what is drawn and
 * asked for.  So one server is modelled in all of these steps, and the other does
 * them at once; with -DAT_ONCE both do, where something else is looked at.
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
 *	- The mark is raised without being asked for, and whenever the writer likes.
 *	- Services lose the lease at any time, for any reason.
 *	- A request is answered, or is served and the answer is lost, or is lost,
 *	  also since something is on offer and it cannot be heeded; with LATE one that
 *	  was given up may be served at any later time, also after a restart.
 *
 * -DCLONE lets the other server at any time become a copy of this one, as of
 * now, which goes on too; -DREBOOT lets a restart be one of the machine.
 *
 * -DTIMED has real time, 1 to TIMES, in which the clocks of the servers are
 * right; a time unit is one of the times, and a lease lasts TTL of them.  Then
 * a server must not be given a number while the other one believes that it
 * has it.  There is no other number then, so that there are fewer states, but
 * with -DOTHERS.
 * With it, -DSTEPS lets the registry's clock step, -DRELEASE has
 * snowflake_release_node() for a server that is gone, and -DANY_CLOCK lets the
 * servers' clocks show anything.  What a registry may lose is in registry.pml.
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

mtype = { idle, remembered, renewing, raised, numbered };

typedef Server
{
	/* The home database: the cached lease. */
	byte cached_node;
	byte cached_instance;
	byte cached_floor;
	byte cached_mark;

	/* Shared memory: what the writer alone writes, but for ... */
	byte word;
	byte limit;
	byte node;
	byte floor;					/* of the number */
	byte mark;					/* ... this, which services raise */

	/* What services offer it; all of no meaning unless "offered". */
	bool offered;				/* and not taken yet */
	byte offer_node;
	byte offer_floor;
	byte offer_mark;
#ifdef TAKEN_EARLY
	bool taken;
#endif

	/* The backend that is about to draw the watched ID. */
	bool covered;				/* saw that it is below the limit */
	byte with;					/* and has this number */
	bool drew;					/* it was drawn here, in any life */

	/* The writer. */
	mtype at;

	/* Services, and the answer that is on its way or worked on. */
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
	byte deadline;				/* in shared memory */
	byte to_deadline;
	byte last_deadline;			/* of what services have offered; 0: none */
	byte sent;					/* when the request was, 0: none is */
#endif
};
Server S[2];
#define my			S[me]

/* The servers whose handover, and whose drawing, is in steps; see above. */
#ifdef AT_ONCE
#define is_detailed(s)	false
#define draws_in_steps(s) true
#else
#define is_detailed(s)	((s) == 0)
#define draws_in_steps(s) ((s) == 0)
#endif
#define other(s)	S[1 - (s)]

/* The registry's row of the watched number. */
byte row_instance = ELSEWHERE;
byte row_floor = BELOW;
byte row_mark = BELOW;
#ifdef TIMED
byte row_expires;

byte now = 1;
bool stepped;					/* the registry's clock */
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
bool services_ended;			/* alone, within a handover */
bool writer_ended;
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
	(S[s].node == WATCHED && S[s].word < watched && \
		(watched < S[s].mark || watched < S[s].limit))
#define disjoint	(!can_issue(0) || !can_issue(1))

/* Does the other server believe that it has the number? */
#ifdef TIMED
#define in_time(s)	(S[s].node == WATCHED && now < S[s].deadline)
#define alone(s)	(!in_time(1 - (s)))
#else
#define alone(s)	true
#endif

#if defined(TIMED) && !defined(ANY_CLOCK)
#define clock_shows_it	(now == watched)
#else
#define clock_shows_it	true
#endif

#ifdef TIMED
#define deadline_passed	(now >= my.deadline)
#else
#define deadline_passed	false
#endif

#ifdef OVERWRITE
#define may_offer(s)	true
#elif defined(TAKEN_EARLY)
#define may_offer(s)	(!S[s].offered || S[s].taken)
#else
#define may_offer(s)	(!S[s].offered)
#endif

inline forget_answer(s)
{
	S[s].answered = false;
	S[s].to_node = NONE;
	S[s].to_floor = 0;
	S[s].to_mark = 0;
#ifdef TIMED
	S[s].to_deadline = 0;
	S[s].sent = 0
#endif
}

inline forget_offer(s)
{
	S[s].at = idle;
	S[s].offered = false;
	S[s].offer_node = NONE;
	S[s].offer_floor = 0;
	S[s].offer_mark = 0
#ifdef TAKEN_EARLY
	;
	S[s].taken = false
#endif
}

/* What services have for themselves is lost. */
inline restart_services(s)
{
	S[s].stage = idle;
	forget_answer(s)
#ifdef TIMED
	;
	S[s].last_deadline = 0
#endif
}

#ifdef CACHE_ANY_INSTANCE
#define is_own_cache(s)	true
#else
#define is_own_cache(s)	(S[s].cached_instance == s)
#endif

/* All of the handover. */
inline take_at_once(s)
{
#ifndef NO_RAISE
	S[s].word = MAX(S[s].word, S[s].limit - 1);
#endif
#ifndef IGNORE_FLOOR
	S[s].word = MAX(S[s].word, S[s].to_floor - 1);
#endif
	S[s].node = S[s].to_node;
	S[s].floor = S[s].to_floor;
	S[s].mark = S[s].to_mark;
	S[s].limit = MAX(S[s].limit, S[s].to_mark);
#ifdef TIMED
	S[s].deadline = S[s].cached_deadline;
#endif
	forget_answer(s)
}

/*
 * What was in memory is lost.  It goes on with the cached lease, if that is
 * its own: services offer it, before anybody else can do anything.
 */
inline restart(s)
{
	S[s].covered = false;
	S[s].with = NONE;
	restart_services(s);
	forget_offer(s);
	S[s].word = (S[s].drew -> watched : 0);
	S[s].limit = BELOW;
	S[s].node = NONE;
	S[s].floor = 0;
	S[s].mark = BELOW;
#ifdef TIMED
	S[s].deadline = 0;
#endif
	if
	:: S[s].cached_node != NONE && is_own_cache(s) && !is_detailed(s) ->
		S[s].to_node = S[s].cached_node;
#ifdef CACHE_NO_FLOOR
		S[s].to_floor = BELOW;
#else
		S[s].to_floor = S[s].cached_floor;
#endif
		S[s].to_mark = S[s].cached_mark;
		take_at_once(s)
	:: S[s].cached_node != NONE && is_own_cache(s) && is_detailed(s) ->
		S[s].offered = true;
		S[s].offer_node = S[s].cached_node;
#ifdef CACHE_NO_FLOOR
		S[s].offer_floor = BELOW;
#else
		S[s].offer_floor = S[s].cached_floor;
#endif
#ifdef TIMED
		S[s].last_deadline = S[s].cached_deadline;
#endif
		S[s].offer_mark = S[s].cached_mark
	:: else ->
		S[s].cached_floor = 0;
		S[s].cached_mark = 0
#ifdef TIMED
		;
		S[s].cached_deadline = 0
#endif
	fi;
	S[s].holds = false;
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
#if defined(NO_MARK_CONDITION) || defined(ANY_CLOCK)
#define mark_passed		true
#else
#define mark_passed		(row_mark <= now)
#endif
#define renews(s)	(is_holder(s) && !expired)
#define claims(s)	(expired && (mark_passed || is_holder(s)))
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
			answer(s, WATCHED, floor);
			if
			:: row_floor = floor;
				grant(s)
#ifdef EARLY_ANSWER
			:: skip				/* the commit fails */
#endif
			fi
#if !defined(TIMED) || defined(OTHERS)
		/*
		 * Another number, or more of it; not with a lower mark than before, if it
		 * was not released.
		 */
		:: held(s) != OTHER || S[s].mark < END ->
			mark = END;
			if
			:: answer(s, OTHER, BELOW)
#ifndef TIMED
			:: answer(s, OTHER, ABOVE)
#endif
			fi
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
 * A server: a backend, services, and the writer.  They are one process of the
 * model, as what each does next is in "with", "stage" and "at".
 */

/* More of what it has. */
#ifdef SAME_NUMBER
#define goes_on(s)	(S[s].to_node == S[s].node)
#else
#define goes_on(s)	(S[s].to_node == S[s].node && S[s].to_floor <= S[s].floor)
#endif

#ifdef FROM_ANSWER
#define to_the_deadline	(now + TTL)
#else
#define to_the_deadline	my.to_deadline
#endif

inline draw(s)
{
#ifdef NEVER
	assert(!(NEVER));
#endif
	S[s].word = watched;
	S[s].drew = true;
	assert(!issued);
	issued = true
}

/* Into the home database, with the token of this start. */
inline remember(s, node_number, least, most)
{
	S[s].cached_node = node_number;
	S[s].cached_instance = s;
	S[s].cached_floor = least;
	S[s].cached_mark = most;
	S[s].cached_now = true;
	S[s].cached_holds = S[s].holds;
	note(restarted[s] = false)
}

/* What is remembered may be another number, if that was never offered. */
inline renew(s)
{
#ifdef LOWER_LIMIT
	S[s].mark = S[s].to_mark;
#else
	S[s].mark = MAX(S[s].mark, S[s].to_mark);
#endif
#ifdef TIMED
	S[s].deadline = to_the_deadline;
	S[s].last_deadline = 0;
#endif
	if
	:: remember(s, S[s].node, S[s].floor, S[s].mark)
#ifdef TIMED
		;
		S[s].cached_deadline = S[s].deadline
#endif
	:: S[s].cached_node != S[s].node || S[s].cached_floor != S[s].floor
	fi;
	if
	:: is_detailed(s) -> S[s].stage = idle
#ifdef LOWER_LIMIT
	:: else -> S[s].limit = S[s].mark
#else
	:: else -> S[s].limit = MAX(S[s].limit, S[s].mark)
#endif
	fi;
	forget_answer(s);
	check(disjoint)
}

inline number(s)
{
	S[s].mark = S[s].offer_mark;
#ifndef FLOOR_EARLY
	S[s].floor = S[s].offer_floor;
#endif
	S[s].node = S[s].offer_node;
	check(disjoint)
}

proctype Run(byte me)
{
	do
	/* all at once */
	:: atomic {
		!draws_in_steps(me) && my.node == WATCHED && !deadline_passed &&
		clock_shows_it && my.word < watched && watched < my.limit ->
		draw(me)
	}

#ifdef NODE_FIRST
	:: atomic {
		draws_in_steps(me) && my.with == NONE && my.node == WATCHED && !deadline_passed ->
		my.with = WATCHED
	}
	:: atomic {
		my.with == WATCHED && !my.covered && watched < my.limit && clock_shows_it ->
		my.covered = true
	}
#else
	/* limit: it is looked at with the deadline and the clock */
	:: atomic {
		draws_in_steps(me) && !my.covered && !deadline_passed && clock_shows_it &&
		my.word < watched && watched < my.limit ->
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
		:: my.word < watched -> draw(me)
		:: else
		fi;
		my.covered = false;
		my.with = NONE
	}

	/* ask */
#ifdef TIMED
	:: atomic {
		my.stage == idle && !my.answered && my.sent == 0 ->
		my.sent = now
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
			my.sent = 0
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

	/*
	 * heed: the number goes on; at once, as a restart between is no different,
	 * nor is what the writer does meanwhile when nothing is on offer
	 */
#ifdef RENEW_LATE
	:: atomic { my.stage == idle && my.answered && goes_on(me) -> my.stage = renewing }
	:: atomic { my.stage == renewing -> renew(me) }
#else
	:: atomic {
		my.stage == idle && my.answered && goes_on(me) && may_offer(me) ->
		renew(me)
	}
#endif

	/* heed: it is another one, or it was another's in between; remember */
	:: atomic {
		my.stage == idle && my.answered && !goes_on(me) && may_offer(me) ->
		remember(me, my.to_node, my.to_floor, my.to_mark);
#ifdef FLOOR_EARLY
		my.floor = my.to_floor;
#endif
#ifdef TIMED
		my.deadline = 0;
		my.last_deadline = 0;
		my.cached_deadline = to_the_deadline;
#endif
		if
		:: is_detailed(me) -> my.stage = remembered
		:: else -> take_at_once(me); check(disjoint)
		fi
	}

	/* offer */
	:: atomic {
		my.stage == remembered ->
		my.offered = true;
		my.offer_node = my.to_node;
		my.offer_floor = my.to_floor;
		my.offer_mark = my.to_mark;
#ifdef TAKEN_EARLY
		my.taken = false;
#endif
#ifdef SERVICES_NUMBER
		my.node = my.to_node;
		my.floor = my.to_floor;
		my.mark = my.to_mark;
#endif
#ifdef TIMED
#ifdef DEADLINE_EARLY
		my.deadline = my.cached_deadline;
#else
		my.last_deadline = my.cached_deadline;
#endif
#endif
		my.stage = idle;
		forget_answer(me)
	}

	/* allow */
#ifdef TIMED
	:: atomic {
		my.last_deadline != 0 && !my.offered ->
		my.deadline = my.last_deadline;
		my.last_deadline = 0
	}
#endif

	/* lose */
#ifdef TIMED
	:: atomic {
		is_detailed(me) && my.stage == idle &&
		(my.deadline != 0 || my.last_deadline != 0) ->
		my.deadline = 0;
		my.last_deadline = 0
	}
#endif

	/* services end, and start again */
	:: atomic {
		my.stage == remembered ->
		note(services_ended = true);
		restart_services(me)
	}
#ifdef TIMED
	:: atomic { my.last_deadline != 0 -> restart_services(me) }
#endif

	/* raise */
	:: atomic {
		my.at == idle && my.offered ->
#ifndef NO_RAISE
		my.word = MAX(my.word, my.limit - 1);
#endif
#ifndef IGNORE_FLOOR
		my.word = MAX(my.word, my.offer_floor - 1);
#endif
#ifdef TAKEN_EARLY
		my.taken = true;
#endif
		my.at = raised
	}

	/* number; mark and floor go along, as nobody else looks at them now */
	:: atomic {
		my.at == raised ->
#ifdef LIMIT_FIRST
		my.limit = MAX(my.limit, my.offer_mark);
#else
		number(me);
#endif
		my.at = numbered
	}

	/* publish, and as often as the mark of the lease was raised */
#ifdef LOWER_LIMIT
	:: atomic { is_detailed(me) && my.at != raised && my.limit != my.mark -> my.limit = my.mark }
#else
	:: atomic { is_detailed(me) && my.at != raised && my.limit < my.mark -> my.limit = my.mark }
#endif

	/* taken */
	:: atomic {
		my.at == numbered ->
#ifdef LIMIT_FIRST
		number(me);
#endif
		forget_offer(me)
	}

	/* the writer ends, and starts again */
	:: atomic {
		my.at != idle ->
		note(writer_ended = true);
		my.at = idle
	}

	/* a crash, or a shutdown */
	:: atomic { restart(me) }
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
