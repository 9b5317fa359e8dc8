package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

const (
	// maxListed is the maximum number of letters that are read for a list. If there are more, the list has the oldest
	// of those that were read.
	maxListed = 10_000
	// emptyPulls is how many pulls in a row must be empty to conclude that no letter is left: each pull asks only a
	// few of Pub/Sub's servers.
	emptyPulls = 3
)

// corpse is a dead letter that was pulled, so that it is hidden for now.
type corpse struct {
	bus.DeadLetter
	message *pubsubpb.PubsubMessage
	ackID   string
}

// DeadLetters implements bus.Bus.
func (b *Bus) DeadLetters(ctx context.Context, queue string, limit int) (_ []bus.DeadLetter, err error) {
	ctx, end, err := b.queues.Begin(ctx, "dead letters")
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if err := b.known(queue); err != nil || limit <= 0 {
		return nil, err
	}
	b.dead.Lock()
	defer b.dead.Unlock()
	var all []corpse
	defer func() { err = errors.Join(err, b.release(ctx, all)) }()
	err = b.eachDead(ctx, func(page []corpse) (bool, error) {
		all = append(all, page...)
		return len(all) < maxListed, nil
	})
	if err != nil {
		return nil, err
	}
	var letters []bus.DeadLetter
	for i := range all {
		if queue == "" || all[i].Queue == queue {
			letters = append(letters, all[i].DeadLetter)
		}
	}
	slices.SortStableFunc(letters, func(x, y bus.DeadLetter) int {
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID))
	})
	return letters[:min(limit, len(letters))], nil
}

func (b *Bus) known(queue string) error {
	if queue == "" {
		return nil
	}
	_, err := b.queues.Config(queue)
	return err
}

// eachDead calls yield with one page of dead letters after the other, until yield returns false or no letter is left.
// All these letters are hidden afterwards.
func (b *Bus) eachDead(ctx context.Context, yield func([]corpse) (bool, error)) error {
	seen := make(map[string]bool)
	for empty := 0; empty < emptyPulls; {
		pulled, err := b.pull(ctx, b.cfg.subscription(deadName), maxPull, 0)
		if err != nil {
			return err
		}
		var page []corpse
		for _, r := range pulled {
			if id := r.GetMessage().GetMessageId(); !seen[id] {
				seen[id] = true
				page = append(page, b.exhumed(r))
			}
		}
		if len(page) == 0 {
			empty++
			continue
		}
		empty = 0
		if more, err := yield(page); err != nil || !more {
			return err
		}
	}
	return nil
}

// exhumed reads a dead letter.
func (b *Bus) exhumed(r *pubsubpb.ReceivedMessage) corpse {
	p := r.GetMessage()
	a := p.GetAttributes()
	c := corpse{message: p, ackID: r.GetAckId()}
	m, err := decode(p)
	c.Message = m
	if err != nil && m.ID == "" {
		c.ID = p.GetMessageId()
	}
	if at, ok := a[attrAt]; ok {
		c.Queue, c.Reason = a[attrDeadQueue], a[attrReason]
		c.Attempts, _ = strconv.Atoi(a[attrAttempts])
		c.At, _ = time.Parse(time.RFC3339Nano, at)
		return c
	}
	// Pub/Sub's own policy has given it up.
	c.Queue = a[attrQueue]
	if source := a[attrSource]; c.Queue == "" && strings.HasPrefix(source, b.cfg.Prefix) {
		c.Queue = strings.TrimPrefix(source, b.cfg.Prefix)
	}
	q, _ := b.queues.Config(c.Queue)
	c.Attempts = int(policyAttempts(q))
	if n, err := strconv.Atoi(a[attrCount]); err == nil {
		c.Attempts = n
	}
	c.Reason = fmt.Sprintf("no answer within %v of delivery %d, the last", q.Visibility, c.Attempts)
	if t := p.GetPublishTime(); t != nil {
		c.At = t.AsTime()
	}
	return c
}

// release makes received letters visible again, even if ctx was cancelled.
func (b *Bus) release(ctx context.Context, letters []corpse) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for len(letters) > 0 {
		n := min(len(letters), maxPull)
		in := &pubsubpb.ModifyAckDeadlineRequest{Subscription: b.cfg.subscription(deadName)}
		for _, c := range letters[:n] {
			in.AckIds = append(in.AckIds, c.ackID)
		}
		if err := b.cfg.Subscriptions.ModifyAckDeadline(ctx, in); err != nil {
			return err
		}
		letters = letters[n:]
	}
	return nil
}

// Redrive implements bus.Bus.
func (b *Bus) Redrive(ctx context.Context, queue string, ids ...string) (redriven int, err error) {
	ctx, end, err := b.queues.Begin(ctx, "redrive")
	if err != nil {
		return 0, err
	}
	defer end(&err)
	if err := b.known(queue); err != nil {
		return 0, err
	}
	b.dead.Lock()
	defer b.dead.Unlock()
	begun := b.clock.Now() // later dead letters are left alone
	var stay []corpse
	defer func() { err = errors.Join(err, b.release(ctx, stay)) }()
	err = b.eachDead(ctx, func(page []corpse) (bool, error) {
		var again []*pubsubpb.PubsubMessage
		var leave []string
		for _, c := range page {
			to := []string{c.Queue}
			if c.Queue == "" {
				to = b.cfg.Route[c.Type]
			}
			if len(to) == 0 || queue != "" && c.Queue != queue || c.At.After(begun) || len(ids) > 0 &&
				!slices.Contains(ids, c.ID) {
				stay = append(stay, c)
				continue
			}
			for _, name := range to {
				p := copyOf(c.message, map[string]string{attrQueue: name})
				if b.cfg.Ordered {
					p.OrderingKey = c.Group
				}
				again = append(again, p)
			}
			leave = append(leave, c.ackID)
		}
		if err := b.put(ctx, topicName, again); err != nil {
			stay = append(stay, page...)
			return false, err
		}
		if err := b.ack(ctx, deadName, leave...); err != nil {
			return false, err
		}
		redriven += len(leave)
		return true, nil
	})
	return redriven, err
}
