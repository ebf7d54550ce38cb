/*-------------------------------------------------------------------------
 *
 * segment.pml
 *		Model of how a server gives out the numbers of a tag: the word, the two
 *		buffers, and who asks whom for more.
 *
 * For the model checker spin, which tries every order of the steps; see
 * 030_model.pl for how it is run.
 *
 * Each atomic block or statement is one step: at most one access to what is
 * read without the lock (word, buffers, delta, serial, asked, requested).  What
 * only those see who hold the lock goes along with such a step.
 *
 *	Here						In src/
 *	Taker: read, swap, ask		segment.c take(), ask()
 *	Taker: look, make			segment.c look_at(), make_entry()
 *	Taker: sleep				segment.c take_slowly(); the latch: waits.c
 *	close(), forget()			segment.c segment_forget()
 *	put(), advance()			the same in segment.c, with segment_ before put
 *	Worker: used				segment_send.c link_is_used()
 *	Worker: ask, apply			segment_fetch.c build_take(), apply_row(),
 *								take_failed()
 *	Worker: command				segment_fetch.c, a drop
 *
 * There is one entry, which two tags fight for, and there are two backends.  Of
 * tag A one number is watched, any one.  A segment has one number or two; which
 * of them is the one with the watched number, is open until it is given out.
 * That the registry gives it out once is the matter of segment_registry.pml.
 *
 * Where the model simplifies, it allows more than the code does:
 *
 *	- The registry may fail, give nothing, or say that a tag does not exist or
 *	  is another incarnation, at any time.
 *	- A backend calls as often as it likes, and for either tag each time.
 *
 * But it never waits with a timeout, neither does the worker: who is not woken
 * sleeps for ever.  When nothing happens any more, nobody may sleep.
 *
 * Bounded are the generations, to GENERATIONS, and the tags of the entry, one
 * after the other, to SERIALS.  Not modelled: weakly ordered
 * memory, the deadline of lease_ttl, and the end of the worker alone.
 *
 * -DPOLL has the worker report now and then, -DREUSE lets the tags come and go.
 * All else that can be defined leaves out something,
 * see 030_model.pl.  With -DUNIQUE_ONLY nothing but uniqueness is asserted;
 * -DNEVER=condition asserts that the watched number is not issued under it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GENERATIONS
#define GENERATIONS	4
#endif
#ifndef SERIALS
#define SERIALS		3
#endif
#define CLOSED		7			/* in place of how many are gone */
#define NOBODY		2			/* who has the lock */
#define WORKER		3

#define A			1
#define B			2

/* What a buffer begins with: all numbers of another segment are one. */
#define WATCHED		A
#define OTHER_A		3
#define OTHER_B		B
#define tag_of(first)	((first) == OTHER_B -> B : A)

mtype = { unused, fresh, open, missing };

/* Shared memory, read with no lock. */
byte generation;
byte gone = CLOSED;
byte first[2];
byte count[2];
byte serial;
bool asked;
bool requested;

/* The same, under the lock. */
bool locked;
mtype state = unused;
byte tag;
bool has_next;
bool known;						/* the incarnation of the tag */
bool in_flight;
bool is_used;					/* there was a tag at any time */
bool command;					/* to drop the tag is asked for */

/* The worker: its latch, and what it asks for. */
bool latch;
bool is_asked;
bool wanted;
byte sent_serial;
bool is_report;
bool polled;
bool cleared;
bool sent;

/* Backends. */
typedef Own
{
	byte tag;					/* of this call */
	byte known_tag;				/* that it has the serial of, 0: none */
	byte serial;
	byte generation;			/* as it was read, and so on */
	byte gone;
	byte count;
	byte first;
	byte n;
	bool wakes;
	bool waits;
	bool signalled;				/* the condition variable */
	byte answers;				/* that are not enough to believe in */
};
Own own[2];
#define my own[me]

/* The watched number, from 0, in a segment of so many; 0: not given out yet. */
byte watched;
byte size;
bool issued;

bool quiet;						/* nobody begins anything any more */
#define may_begin	(!quiet && generation < GENERATIONS)

/* For NEVER. */
bool reused;
bool swapped;
#ifdef NEVER
#define note(what)	what
#else
#define note(what)	skip
#endif

#ifdef UNIQUE_ONLY
#define check(condition)	skip
#else
#define check(condition)	assert(condition)
#endif

#define in_use		(generation & 1)
#define exhausted	(gone >= count[in_use])

inline issue()
{
	assert(!issued);
	issued = true
}

inline broadcast()
{
	own[0].signalled = true;
	own[1].signalled = true
}

/* With the lock, so that the generation is the same when it is changed. */
inline close()
{
	atomic {
#ifndef NO_CLOSE
		/* the code raises it also where it is closed: nobody can tell */
		generation = generation + (gone != CLOSED);
		gone = CLOSED;
#endif
		has_next = false
	}
}

/* Nobody takes from a buffer without numbers, so this is one step, too. */
inline advance()
{
	atomic {
		if
		:: has_next && exhausted ->
			has_next = false;
			generation++;
			gone = 0;
			note(swapped = true)
		:: else
		fi
	}
}

/* The tag exists no more, or is another incarnation. */
inline forget(to_state)
{
	close();
	atomic { state = to_state; known = false }
}

#ifdef WAKING
/* Have the worker look, unless somebody else has since it did last. */
inline wake(b)
{
#ifdef WAKE_LATE
	own[b].wakes = !requested;
	requested = true;
#else
	atomic { own[b].wakes = !requested; requested = true };
#endif
	atomic {
		if
		:: own[b].wakes -> latch = true
		:: else
		fi;
		own[b].wakes = false
	}
}
#endif

/* What the values are worth from here on. */
inline end_take()
{
	my.generation = 0;
	my.gone = 0;
	my.count = 0;
	my.first = 0;
	my.n = 0
}

inline end_call()
{
	end_take();
	my.tag = 0;
	my.answers = 0;
	my.waits = false
}

proctype Taker(byte me)
{
end_begin:
	/* a call */
	atomic {
		may_begin ->
		my.tag = A;
#ifdef REUSE
		if
		:: my.tag = B
		:: true
		fi;
#endif
		if
		:: my.tag != my.known_tag -> goto end_look
		:: else
		fi
	};

take:
	/* read */
	atomic {
		my.generation = generation;
		my.gone = gone
#ifdef WAKING
		;
		my.count = count[in_use];
		if
		:: serial != my.serial || my.gone >= my.count -> end_take(); goto end_look
		:: else -> goto swap
		fi
#endif
	};
again:
#ifndef NO_SERIAL
	atomic {
		if
		:: serial != my.serial -> end_take(); goto end_look
		:: else
		fi
	};
#endif
	atomic {
		my.count = count[my.generation & 1];
		if
		:: my.gone >= my.count -> end_take(); goto end_look
		:: else
		fi
	};
	my.first = first[my.generation & 1];

swap:
	atomic {
		if
#ifdef GONE_ONLY
		:: gone == my.gone ->
#else
		:: generation == my.generation && gone == my.gone ->
#endif
			my.n = 1;
			if
			:: my.gone + 1 < my.count -> my.n = my.count - my.gone
			:: true
			fi;
			gone = gone + my.n;
#ifndef WAKING
			check(tag_of(my.first) == my.tag);
			if
			:: my.first == WATCHED ->
				check(my.gone + my.n <= size);
				if
				:: my.gone <= watched && watched < my.gone + my.n ->
#ifdef NEVER
					assert(!(NEVER));
#endif
					issue()
				:: else
				fi
			:: else
			fi;
			end_call();
			goto end_begin
#else
			/* where this was a tenth, the first one, it asks */
			if
			:: my.gone > 0 -> end_call(); goto end_begin
			:: else -> end_call()
			fi
#endif
		:: else ->
#ifdef WAKING
			end_take();
			goto take
#else
			my.count = 0;
			my.first = 0;
			my.generation = generation;
			my.gone = gone;
			goto again
#endif
		fi
	};
#ifdef WAKING
	asked = true;
	wake(me);
	goto end_begin;
#endif

end_look:
	atomic {
		!locked && (!my.waits || my.signalled) ->
		my.waits = false;
		my.signalled = false;
		if
		:: (tag != my.tag && state != unused && state != missing) ||
			(serial == SERIALS && (tag != my.tag || state == unused)) ->
			/* full */
			end_call();
			goto end_begin
		:: else -> locked = true
		fi
	};
	if
	:: tag != my.tag || state == unused ->
		/* make: another tag, or one that was dropped */
		forget(fresh);
		serial++;
		asked = false;
		atomic {
			tag = my.tag;
			in_flight = false;
			note(reused = is_used);
			is_used = true
		}
	:: else
	fi;
	atomic {
#if defined(WAKING) && defined(REUSE)
		if
		:: my.serial != serial || my.answers == 0 -> my.answers = 2 + in_flight
		:: else
		fi;
#endif
		my.known_tag = my.tag;
		my.serial = serial
	};
#ifndef NO_ADVANCE
	advance();
#endif
	atomic {
		locked = false;
		if
		:: !exhausted -> goto take
		:: exhausted && my.answers == 1 && state == missing ->
			end_call();
			goto end_begin
		:: else
#ifdef WAKING
			-> my.waits = true
#else
			/* an ERROR after a while, or it looks again */
			-> end_call(); goto end_begin
#endif
		fi
	};
#ifdef WAKING
	asked = true;
	wake(me);
#endif
#ifdef PREPARE_LATE
	my.signalled = false;
#endif
	goto end_look
}

/* A segment comes, to the buffer that is not in use. */
#define to_buffer	(1 - in_use)

inline put()
{
#ifndef WAKING
	atomic {
		first[to_buffer] = (tag == B -> OTHER_B : OTHER_A);
		if
		:: tag == A && size == 0 -> first[to_buffer] = WATCHED
		:: true
		fi
	};
#endif
	atomic {
#ifdef REUSE
		count[to_buffer] = 1;
#else
		count[to_buffer] = 2;
#endif
#ifndef WAKING
		if
		:: count[to_buffer] = 1
		:: true
		fi;
		if
		:: first[to_buffer] == WATCHED ->
			size = count[to_buffer];
			watched = 0;
			if
			:: size == 2 -> watched = 1
			:: true
			fi
		:: else
		fi;
#endif
		has_next = true
	};
	advance()
}

inline count_answer(b)
{
	if
	:: own[b].answers > 1 && own[b].serial == serial -> own[b].answers--
	:: else
	fi
}

proctype Worker()
{
end_idle:
#ifdef WAKING
	/* while nothing is used, it does not ask */
	atomic {
		!locked ->
		if
		:: is_used && (requested || cleared) -> cleared = false; goto ask
		:: is_used && !requested && !cleared -> goto end_sleep
		:: else
		fi
	};
	atomic {
		if
		:: requested ->
			requested = false;
#ifndef FORGET_CLEARED
			/* what was asked for meanwhile is not to be forgotten */
			cleared = true;
#endif
			goto end_idle
		:: else -> cleared = false
		fi
	};
#endif

end_sleep:
	if
#ifdef WAKING
	:: atomic { latch -> latch = false; goto end_idle }
#ifdef POLL
	:: atomic { may_begin && is_used && !polled -> polled = true; is_report = true; goto ask }
#endif
#else
	:: atomic { may_begin && is_used -> asked = true; goto ask }
#ifdef REUSE
	:: atomic { may_begin && state != unused -> command = true; goto ask }
#endif
#endif
	fi;

ask:
	requested = false;
	/* a command goes before all else */
	if
	:: atomic { !locked && command -> locked = true; command = false }
		if
		:: state != unused -> forget(unused)
		:: else
		fi;
		atomic {
			in_flight = false;
			is_report = false;
			locked = false;
			broadcast();
			goto end_idle
		}
	:: atomic { !locked && !command -> locked = true }
	fi;
	is_asked = asked;
	atomic {
		if
		:: is_asked -> asked = false
#ifdef CLEAR_UNREAD
		:: !is_asked && is_report && known -> asked = false
#endif
		:: else
		fi;
		wanted = is_asked && !has_next && state != unused;
		sent = state != unused && (is_asked || (is_report && known));
		in_flight = in_flight || sent;
		sent_serial = serial;
		is_asked = false;
		is_report = false;
		locked = false
	};
	/* the answer */
	atomic { !locked -> locked = true };
	if
	:: !sent || serial != sent_serial || state == unused
	/* failed */
	:: atomic { sent && serial == sent_serial && !quiet -> in_flight = false };
		if
		:: wanted -> asked = true
		:: else
		fi;
		locked = false;
		requested = true;
		goto heeded
	:: atomic {
		sent && serial == sent_serial && state != unused ->
		in_flight = false;
		count_answer(0);
		count_answer(1)
	};
		if
#ifdef REUSE
		:: may_begin -> forget(missing)
		/* another incarnation */
		:: atomic { may_begin && known };
			forget(open);
			atomic { known = true; asked = asked || wanted }
#endif
		:: true ->
			if
			:: !known -> forget(open); known = true
			:: else
			fi;
			if
			:: wanted && generation < GENERATIONS -> put()
			/* another request came first */
			:: wanted && !quiet -> asked = true
			:: !wanted || generation >= GENERATIONS
			fi;
			state = open
		fi
	fi;
	locked = false;
	broadcast();
heeded:
	atomic { wanted = false; sent = false; sent_serial = 0; goto end_idle }
}

#ifdef WAKING
proctype World()
{
end:
	do
	:: atomic { !quiet -> quiet = true }
	/* nothing happens any more */
	:: atomic {
		timeout ->
		if
		:: quiet ->
			assert(!own[0].waits && !own[1].waits);
			assert(gone == 0 || gone == CLOSED || has_next || asked || state != open ||
				generation >= GENERATIONS)
		:: else
		fi;
		break
	}
	od
}
#endif

init
{
	atomic {
		run Taker(0);
		run Taker(1);
		run Worker();
#ifdef WAKING
		run World()
#endif
	}
}
