/** The API's types by the names that the console uses. */
import type * as api from "./schema";

export type {
  AdminKey,
  ApiKey,
  Breakdown,
  Budget,
  Invite,
  Pool,
  Price,
  Project,
  Replica,
  RequestDetail,
  RequestLine,
  Route,
  Sums,
  User,
} from "./schema";

export interface List<T> {
  data: T[];
  has_more: boolean;
  last_id: string | null;
}

export interface PageOf<T> {
  data: T[];
  has_more: boolean;
  next_page: string | null;
}

/** A key just made: its value is in this answer and nowhere else. */
export type ShownKey = api.ApiKey & { value?: string | null };
export type LimitRow = api.Limits;
export type PoolSpec = api.EngineSpec;
export type Attempt = api.RequestAttempt;
export type BreakdownRow = api.BreakdownGroup;
export type UsualDay = api.Usual;
export type ExportRun = api.Export;
export type ModelPermission = Pick<api.ModelPermissions, "mode" | "model_ids">;

/** What an audit row says was, and is; the description leaves their fields open. */
export type AuditLine = api.AuditLog & { details: { before?: Record<string, unknown>; after?: Record<string, unknown> } };
