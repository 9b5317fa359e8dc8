package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Commit implements store.Store. A transaction of one item is a plain conditional write, at half the cost;
// any other is one TransactWriteItems.
func (s *Store) Commit(ctx context.Context, tx store.Tx) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("dynamo: commit: %w", err)
	}
	outbox := s.pack(tx)
	switch {
	case len(tx.Writes)+len(outbox) == 0:
		return nil
	case len(tx.Writes) == 1 && len(outbox) == 0:
		return s.commitOne(ctx, &tx.Writes[0])
	case len(tx.Writes) == 0 && len(outbox) == 1:
		return s.putOutbox(ctx, outbox[0])
	}
	return s.transact(ctx, tx.Writes, outbox)
}

func (s *Store) transact(ctx context.Context, writes []store.Write, outbox []item) error {
	actions := make([]types.TransactWriteItem, 0, len(writes)+len(outbox))
	for i := range writes {
		actions = append(actions, s.action(&writes[i]))
	}
	for _, it := range outbox {
		actions = append(actions, types.TransactWriteItem{Put: &types.Put{TableName: s.table, Item: it}})
	}
	for attempt := 1; ; attempt++ {
		// If the outcome of a request is unknown, the SDK repeats it with the same token, and DynamoDB applies
		// it once. A cancelled transaction was not applied and gets a new token.
		token, err := s.randomHex()
		if err != nil {
			return err
		}
		out, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: actions, ClientRequestToken: aws.String(token), ReturnConsumedCapacity: s.meter.level(),
		})
		if err == nil {
			s.meter.transact(actions, out.ConsumedCapacity)
			return nil
		}
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			return wrapError(ctx, "commit", err)
		}
		s.meter.transact(actions, nil) // a cancelled transaction is billed too
		reason := cancellation(writes, cancelled)
		if !errors.Is(reason, errCollision) && !errors.Is(reason, store.ErrThrottled) {
			return fmt.Errorf("dynamo: commit: %w", reason)
		}
		if errors.Is(reason, errCollision) && attempt >= maxCollisionTries {
			return fmt.Errorf("dynamo: commit: %w", reason)
		}
		switch again, err := s.pause(ctx, attempt); {
		case err != nil:
			return err
		case !again:
			return fmt.Errorf("dynamo: commit: %w", reason)
		}
	}
}

// maxCollisionTries is the number of tries of a transaction that collides with another. More tries are useless: the
// other transaction probably writes a version that this one must load anyway.
const maxCollisionTries = 3

// action returns a write as an action of TransactWriteItems.
func (s *Store) action(w *store.Write) types.TransactWriteItem {
	condition, values := expectation(w)
	switch {
	case w.Op == store.Delete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: s.table, Key: keyItem(w.Key), ConditionExpression: condition, ExpressionAttributeValues: values,
		}}
	case w.Op == store.Check:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: s.table, Key: keyItem(w.Key), ConditionExpression: condition, ExpressionAttributeValues: values,
		}}
	case w.Expect == store.Any:
		u := countingUpdate(w)
		return types.TransactWriteItem{Update: &types.Update{
			TableName: s.table, Key: keyItem(w.Key), UpdateExpression: aws.String(u.expression),
			ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		}}
	}
	return types.TransactWriteItem{Put: &types.Put{
		TableName: s.table, Item: recordItem(w, w.Expect+1), ConditionExpression: condition,
		ExpressionAttributeValues: values,
	}}
}

// expectation returns the condition of a write, or none if any version is accepted.
func expectation(w *store.Write) (condition *string, values item) {
	switch w.Expect {
	case store.Any:
		return nil, nil
	case store.Absent:
		return aws.String("attribute_not_exists(pk)"), nil
	}
	return aws.String("v = :e"), item{":e": versionValue(w.Expect)}
}

type update struct {
	expression string
	names      map[string]string
	values     item
}

// countingUpdate returns an update that writes a record regardless of its version; the database increments the version.
func countingUpdate(w *store.Write) update {
	u := update{
		expression: "SET v = if_not_exists(v, :zero) + :one",
		values:     item{":zero": number(0), ":one": number(1)},
	}
	it := recordItem(w, 0)
	remove := []string{attrToken}
	for _, name := range []string{attrBody, attrDeflated, AttrExpires} {
		alias := name
		if name == AttrExpires { // a reserved word
			alias = "#ttl"
			u.names = map[string]string{alias: name}
		}
		if value, ok := it[name]; ok {
			u.expression += ", " + alias + " = :" + name
			u.values[":"+name] = value
		} else {
			remove = append(remove, alias)
		}
	}
	for i, name := range remove {
		u.expression += []string{" REMOVE ", ", "}[min(i, 1)] + name
	}
	return u
}

// errCollision: another transaction or write was writing one of the items at the same moment.
var errCollision = errors.New("collision with another transaction")

// collisionError is a conflict on keys that another transaction was still writing after all retries.
type collisionError struct{ store.ConflictError }

func (e *collisionError) Is(target error) bool {
	return target == errCollision || e.ConflictError.Is(target)
}

func (e *collisionError) As(target any) bool {
	if conflict, ok := target.(**store.ConflictError); ok {
		*conflict = &e.ConflictError
		return true
	}
	return false
}

// cancellation converts DynamoDB's reasons (one for each item, in order) to the store's error. A condition that does
// not hold is a conflict. A mere collision may succeed on retry, and so may throttling.
func cancellation(writes []store.Write, cancelled *types.TransactionCanceledException) error {
	var conflicts, collisions []store.Key
	var unmet, collided, slowed bool
	var other []string
	for i, r := range cancelled.CancellationReasons {
		code := aws.ToString(r.Code)
		switch {
		case code == "" || code == "None":
		case code == "ConditionalCheckFailed" && i < len(writes):
			unmet = true
			conflicts = append(conflicts, writes[i].Key)
		case code == "TransactionConflict":
			collided = true
			if i < len(writes) {
				conflicts = append(conflicts, writes[i].Key)
				collisions = append(collisions, writes[i].Key)
			}
		case throttleCode(code):
			slowed = true
		default:
			other = append(other, fmt.Sprintf("item %d: %s: %s", i, code, aws.ToString(r.Message)))
		}
	}
	switch {
	case unmet:
		return &store.ConflictError{Keys: conflicts}
	case other != nil:
		return refusal(other, cancelled)
	case collided:
		return &collisionError{store.ConflictError{Keys: collisions}}
	case slowed:
		return fmt.Errorf("%w: %w", store.ErrThrottled, cancelled)
	}
	return cancelled
}

// RefusedError means that DynamoDB cancelled a transaction for reasons that a retry does not fix. It wraps
// store.ErrTooLarge if the reason was a size.
type RefusedError struct {
	Reasons []string // "item N: CODE: MESSAGE", N counting the transaction's items from 0
	cause   error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("transaction refused: %v", e.Reasons) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.cause }

func refusal(reasons []string, cancelled *types.TransactionCanceledException) error {
	e := &RefusedError{Reasons: reasons, cause: cancelled}
	if slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "ItemCollectionSizeLimitExceeded"
	}) {
		e.cause = fmt.Errorf("%w: %w", store.ErrTooLarge, cancelled)
	}
	return e
}
