-- What is true of a ledger at every instant, and so of every backup. Raises an error that says what is not.
DO $$
DECLARE
    wrong bigint;
BEGIN
    SELECT count(*) INTO wrong FROM (
        SELECT request_id FROM usage_event WHERE kind = 'request' AND corrects IS NULL
        GROUP BY request_id HAVING count(*) > 1) twice;
    IF wrong > 0 THEN RAISE EXCEPTION '% requests are charged twice', wrong; END IF;

    -- Events of dropped months are gone, and what settled them with them.
    SELECT count(*) INTO wrong FROM settled_request s
    WHERE s.occurred_at >= (SELECT min(occurred_at) FROM usage_event)
        AND NOT EXISTS (SELECT FROM usage_event e WHERE e.event_id = s.event_id AND e.occurred_at = s.occurred_at);
    IF wrong > 0 THEN RAISE EXCEPTION '% settled requests have no event', wrong; END IF;

    SELECT count(*) INTO wrong FROM hold h JOIN settled_request s USING (request_id);
    IF wrong > 0 THEN RAISE EXCEPTION '% settled requests still hold money', wrong; END IF;

    SELECT count(*) INTO wrong FROM (
        SELECT request_id, sum(prompt_uncached_tokens + prompt_cached_tokens) prompt, sum(completion_tokens) completion
        FROM usage_event WHERE kind = 'request' GROUP BY request_id) event
    JOIN (
        SELECT request_id, sum(billed_prompt_tokens) prompt, sum(billed_completion_tokens) completion
        FROM attempt GROUP BY request_id) worked USING (request_id)
    JOIN settled_request s ON s.request_id = event.request_id AND NOT s.is_provisional
    WHERE (event.prompt, event.completion) <> (worked.prompt, worked.completion);
    IF wrong > 0 THEN RAISE EXCEPTION '% events differ from what their attempts bill', wrong; END IF;

    SELECT count(*) INTO wrong FROM budget_period b
    WHERE held_nanousd <> (
        SELECT coalesce(sum((take ->> 'amount_nanousd')::bigint), 0)
        FROM hold, jsonb_array_elements(takes) take
        WHERE take ->> 'budget_id' = b.budget_id AND take ->> 'period_key' = b.period_key);
    IF wrong > 0 THEN RAISE EXCEPTION '% budgets hold other sums than their open requests', wrong; END IF;
END
$$;
