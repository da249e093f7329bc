-- Retention. Frozen: later changes are later revisions. A statement ends with a semicolon followed by an empty line.
-- The application may ask for a deletion here and holds no right to delete by itself: each function checks what makes
-- it safe.

CREATE INDEX ix_attempt_recorded_at_brin ON attempt USING brin (recorded_at);

-- The guards against settling twice, once no evidence can settle by itself any more (gateway/ledger/horizon.py).
CREATE FUNCTION prune_settled_requests(kept interval, max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    pruned integer;
BEGIN
    IF kept < interval '41 days' THEN
        RAISE EXCEPTION 'guards younger than 41 days may still be needed, not only those of %', kept;
    END IF;
    DELETE FROM settled_request WHERE ctid IN (
        SELECT ctid FROM settled_request WHERE settled_at < now() - kept
        ORDER BY settled_at LIMIT max_rows FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;

-- The events of a month. False while it must stay: not old enough, not closed, or not exported whole.
CREATE FUNCTION drop_usage_partition(month date, kept interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    first_day date := date_trunc('month', month::timestamp)::date;
    end_day date := (date_trunc('month', month::timestamp) + interval '1 month')::date;
    partition text := 'usage_event_' || to_char(month, 'YYYY_MM');
BEGIN
    IF kept < interval '62 days' THEN
        RAISE EXCEPTION 'events are kept for 62 days at least, not %', kept;
    END IF;
    IF to_regclass('public.' || partition) IS NULL OR end_day::timestamp AT TIME ZONE 'UTC' > now() - kept THEN
        RETURN false;
    END IF;
    -- Months close in order: what is before a closed one is closed.
    IF NOT EXISTS (SELECT FROM billing_period WHERE ends_at >= end_day::timestamp AT TIME ZONE 'UTC') THEN
        RETURN false;
    END IF;
    -- One export of all tenants, or daily ones without a gap; only formats that hold every event.
    IF NOT EXISTS (
        SELECT FROM export_run WHERE status = 'succeeded' AND tenant_id IS NULL
        GROUP BY format HAVING format IN ('csv', 'jsonl', 'parquet')
            AND range_agg(daterange(period_start, period_end)) @> daterange(first_day, end_day))
        AND EXISTS (SELECT FROM usage_event
            WHERE occurred_at >= first_day::timestamp AT TIME ZONE 'UTC'
                AND occurred_at < end_day::timestamp AT TIME ZONE 'UTC') THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', partition);
    RETURN true;
END $$;

-- Attempts of requests whose events are gone: recorded before the oldest month that is left.
CREATE FUNCTION prune_attempts(max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    pruned integer;
    kept_from timestamptz;
BEGIN
    SELECT to_date(min(right(c.relname, 7)), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC' INTO kept_from
    FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE i.inhparent = 'usage_event'::regclass AND c.relname ~ '^usage_event_[0-9]{4}_[0-9]{2}$';
    DELETE FROM attempt WHERE ctid IN (SELECT ctid FROM attempt WHERE recorded_at < kept_from LIMIT max_rows);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;

REVOKE ALL ON FUNCTION prune_settled_requests(interval, integer), drop_usage_partition(date, interval),
    prune_attempts(integer) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION prune_settled_requests(interval, integer), drop_usage_partition(date, interval),
    prune_attempts(integer) TO tollway_app;
