-- Roles, grants, functions and triggers of revision 0001. Frozen: later changes are later revisions.
-- A statement ends with a semicolon that is followed by an empty line.

DO $$ BEGIN
    CREATE ROLE tollway_app NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster made it
END $$;

-- One URL for everything needs no superuser: the owner may then step down to the application's role.
DO $$ BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
        AND NOT pg_has_role(current_user, 'tollway_app', 'MEMBER') THEN
        EXECUTE format('GRANT tollway_app TO %I', current_user);
    END IF;
END $$;

GRANT USAGE ON SCHEMA public TO tollway_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    admin_api_key, api_key, budget, engine_epoch, gateway_instance, hold, journal_attempt, journal_cursor,
    model_permission, outbox, pool, rate_limit, refusal_minute, replica, rollup_day, rollup_hour, rollup_minute,
    route, service_account, supervisor_lease, tenant, user_pseudonym
TO tollway_app;

GRANT SELECT, INSERT, UPDATE ON budget_period, settled_request TO tollway_app;

-- Facts: written once.
GRANT SELECT, INSERT ON attempt, audit_log, price, usage_event TO tollway_app;

GRANT SELECT ON alembic_version, config_revision TO tollway_app;

-- Makes the monthly partitions of usage_event from the month of first_month on, as many as are asked for, and
-- returns how many were missing. Runs as the owner, so that the application can be sure of a partition without
-- holding DDL rights. A table is attached rather than created as a partition: attaching blocks no reader or
-- writer of the parent.
CREATE FUNCTION ensure_usage_partitions(first_month date, months integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    made integer := 0;
    lower_bound timestamptz;
    upper_bound timestamptz;
    partition text;
BEGIN
    IF months NOT BETWEEN 1 AND 60 THEN
        RAISE EXCEPTION 'months must be between 1 and 60, not %', months;
    END IF;
    FOR i IN 0..months - 1 LOOP
        lower_bound := (date_trunc('month', first_month::timestamp) + make_interval(months => i)) AT TIME ZONE 'UTC';
        upper_bound := (date_trunc('month', first_month::timestamp) + make_interval(months => i + 1)) AT TIME ZONE 'UTC';
        partition := 'usage_event_' || to_char(lower_bound AT TIME ZONE 'UTC', 'YYYY_MM');
        CONTINUE WHEN to_regclass('public.' || partition) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(hashtext('tollway usage_event partitions'));
        -- Read from the table: the name cache does not yet know what the last holder of the lock made.
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class WHERE relname = partition AND relnamespace = 'public'::regnamespace);
        EXECUTE format('CREATE TABLE %I (LIKE usage_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition);
        EXECUTE format('ALTER TABLE usage_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            partition, lower_bound, upper_bound);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

REVOKE ALL ON FUNCTION ensure_usage_partitions(date, integer) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION ensure_usage_partitions(date, integer) TO tollway_app;

SELECT ensure_usage_partitions((now() AT TIME ZONE 'UTC' - interval '1 month')::date, 4);

INSERT INTO config_revision (topic, revision) VALUES ('tenancy', 1), ('routing', 1), ('budget', 1);

-- Deferred to the commit, so that the feed's row is the last lock of every transaction that changes
-- configuration: two of them cannot wait for each other in a circle.
CREATE FUNCTION bump_config_revision() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE config_revision SET revision = revision + 1, changed_at = clock_timestamp() WHERE topic = TG_ARGV[0];
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON tenant
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON service_account
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR DELETE OR UPDATE OF
    name, public_id, secret_hmac, pepper_id, service_account_id, scopes, ip_allow_list, expires_at, revoked_at,
    rotated_from, rotation_key
ON api_key DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR DELETE OR UPDATE OF
    name, public_id, secret_hmac, pepper_id, scopes, expires_at, revoked_at
ON admin_api_key DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON model_permission
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON rate_limit
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('tenancy');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON route
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('routing');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON price
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('routing');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON pool
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('routing');

-- Processes and counters of a replica concern nobody but its supervisor.
CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR DELETE OR UPDATE OF pool_id, state, url, epoch
ON replica DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('routing');

CREATE CONSTRAINT TRIGGER bump_config_revision AFTER INSERT OR UPDATE OR DELETE ON budget
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bump_config_revision('budget');

-- A route without a price cannot be published; a price of zero has to be written down.
CREATE FUNCTION require_price_of_route() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT count(DISTINCT component) FROM price WHERE sku = NEW.sku) < 3 THEN
        RAISE EXCEPTION 'route % cannot be published: sku % lacks a price for input, cached_input or output',
            NEW.id, NEW.sku USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_route_published_has_price';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER require_price_of_route AFTER INSERT OR UPDATE ON route
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.published) EXECUTE FUNCTION require_price_of_route();

-- A zone that cannot be read would stop every reservation under the budget.
CREATE FUNCTION require_known_zone() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_timezone_names WHERE name = NEW.zone) THEN
        RAISE EXCEPTION 'budget %: unknown time zone %', NEW.id, NEW.zone
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_budget_zone';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER require_known_zone BEFORE INSERT OR UPDATE OF zone ON budget
FOR EACH ROW WHEN (NEW.zone <> 'UTC') EXECUTE FUNCTION require_known_zone();
