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

// ErrUnknownOutcome says that an answer was lost, and that what the table holds now does not tell whether the write was
// applied. It is neither a conflict nor a success; handle the event again.
var ErrUnknownOutcome = errors.New("dynamo: unknown whether the write was applied")

// commitOne commits one write without events.
//
// Such a write has no idempotency token of DynamoDB's. When the answer of one that was applied is lost, the SDK's
// second attempt finds its own work and fails its condition. That must not pass for a conflict: a put carries a
// token of ours in the item, by which it knows itself again.
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

// checkOne is a read, which costs a fifth of a write or less and says the same.
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

// updateOne puts a record of any version. An attempt whose answer is lost is applied again and counts twice, as two
// writes of the same would.
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
		return s.checkOne(ctx, w) // there is nothing to remove
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
	return failed(ctx, "commit", err)
}

func conflictOn(w *store.Write) error {
	return fmt.Errorf("dynamo: commit: %w", &store.ConflictError{Keys: []store.Key{w.Key}})
}

// putOutbox commits events alone. Their item has a key of its own, so putting it twice is putting it once.
func (s *Store) putOutbox(ctx context.Context, it item) error {
	out, err := s.client.PutItem(ctx,
		&dynamodb.PutItemInput{TableName: s.table, Item: it, ReturnConsumedCapacity: s.meter.level()})
	if err != nil {
		return failed(ctx, "commit", err)
	}
	s.meter.write("PutItem", []item{it}, out.ConsumedCapacity)
	return nil
}
