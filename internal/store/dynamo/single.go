package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// ErrUnknownOutcome means that an answer was lost, and that the table does not show whether the write was
// applied. It is neither a conflict nor a success; handle the event again.
var ErrUnknownOutcome = errors.New("dynamo: unknown whether the write was applied")

// commitOne commits one write without events.
//
// DynamoDB has no idempotency token for such a write. If it was applied and the answer is lost, the SDK's second
// attempt finds the first attempt's result and fails its condition. That must not look like a conflict, so a put
// stores its own token in the item and recognises itself.
func (s *Store) commitOne(ctx context.Context, w *store.Write) error {
	switch {
	case w.Op == store.Check:
		return s.checkOne(ctx, w)
	case w.Op == store.Delete:
		return s.deleteOne(ctx, w)
	case w.Expect == store.Any:
		return s.updateOne(ctx, w)
	}
	return s.putOne(ctx, w)
}

// checkOne reads the record instead, which gives the same answer at a fifth of a write's cost or less.
func (s *Store) checkOne(ctx context.Context, w *store.Write) error {
	it, err := s.getItem(ctx, w.Key, aws.String("pk, sk, v"))
	if err != nil {
		return err
	}
	version := store.Absent
	if it != nil {
		r, err := decodeRecord(it)
		if err != nil {
			return fmt.Errorf("dynamo: commit: %w", err)
		}
		version = r.Version
	}
	if version != w.Expect {
		return conflictOn(w)
	}
	return nil
}

func (s *Store) putOne(ctx context.Context, w *store.Write) error {
	token, err := s.randomToken()
	if err != nil {
		return err
	}
	it := recordItem(w, w.Expect+1)
	it[attrToken] = &types.AttributeValueMemberB{Value: token}
	condition, values := expectation(w)
	var tries attempts
	out, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: s.table, Item: it, ConditionExpression: condition, ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              s.meter.level(),
	}, tries.watch)
	if err == nil {
		s.meter.write("PutItem", []item{it}, out.ConsumedCapacity)
		return nil
	}
	var unmet *types.ConditionalCheckFailedException
	if errors.As(err, &unmet) {
		s.meter.write("PutItem", []item{it}, nil)
		if mine, ok := unmet.Item[attrToken].(*types.AttributeValueMemberB); ok && bytes.Equal(mine.Value, token) {
			return nil
		}
	}
	return s.oneFailed(ctx, w, tries, err)
}

// updateOne puts a record regardless of its version. If an answer is lost, the put is applied again and increments
// the version twice, like two writes.
func (s *Store) updateOne(ctx context.Context, w *store.Write) error {
	u := countingUpdate(w)
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: s.table, Key: keyItem(w.Key), UpdateExpression: aws.String(u.expression),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values, ReturnConsumedCapacity: s.meter.level(),
	})
	if err != nil {
		return s.oneFailed(ctx, w, attempts{}, err)
	}
	s.meter.write("UpdateItem", []item{recordItem(w, 0)}, out.ConsumedCapacity)
	return nil
}

func (s *Store) deleteOne(ctx context.Context, w *store.Write) error {
	if w.Expect == store.Absent {
		return s.checkOne(ctx, w) // nothing to delete
	}
	condition, values := expectation(w)
	var tries attempts
	out, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: s.table, Key: keyItem(w.Key), ConditionExpression: condition, ExpressionAttributeValues: values,
		ReturnConsumedCapacity: s.meter.level(),
	}, tries.watch)
	if err != nil {
		return s.oneFailed(ctx, w, tries, err)
	}
	s.meter.write("DeleteItem", []item{keyItem(w.Key)}, out.ConsumedCapacity)
	return nil
}

func (s *Store) oneFailed(ctx context.Context, w *store.Write, tries attempts, err error) error {
	var unmet *types.ConditionalCheckFailedException
	var collided *types.TransactionConflictException
	switch {
	case errors.As(err, &unmet) && tries.unsure:
		return fmt.Errorf("%w: %s", ErrUnknownOutcome, w.Key)
	case errors.As(err, &unmet), errors.As(err, &collided):
		return conflictOn(w)
	}
	return wrapError(ctx, "commit", err)
}

func conflictOn(w *store.Write) error {
	return fmt.Errorf("dynamo: commit: %w", &store.ConflictError{Keys: []store.Key{w.Key}})
}

// putOutbox commits a transaction without writes. Its item has a unique key, so putting it twice has no effect.
func (s *Store) putOutbox(ctx context.Context, it item) error {
	out, err := s.client.PutItem(ctx,
		&dynamodb.PutItemInput{TableName: s.table, Item: it, ReturnConsumedCapacity: s.meter.level()})
	if err != nil {
		return wrapError(ctx, "commit", err)
	}
	s.meter.write("PutItem", []item{it}, out.ConsumedCapacity)
	return nil
}
