// The schemas that openapi-admin.yaml and openapi-portal.yaml name. `npm run docs:api` writes them there.

import { Alerts, AppAlert } from './alerts.ts'
import { AppRecord, MadeReadKey, OneUsage, ReadKeys, Rotated, ShownReadKey } from './app-records.ts'
import { Codes, Example, Explained, Limit, MonthWindow, Session, Usage, UsageByDay, Window } from './apps.ts'
import { History, Node, Now, Plot, Queue } from './now.ts'
import {
  PortalError,
  PortalEvent,
  PortalEvents,
  PortalExplained,
  PortalFound,
  PortalNotFound,
  PortalRefusal,
  PortalRefusalFound,
  PortalRefusals,
  PortalSession,
  PortalUsage,
} from './portal.ts'
import { PROBLEMS, type Problem } from './problems.ts'
import { Origin, Reason, Refusal, Refusals } from './refusals.ts'
import { Counts, OptionalNumber, OptionalText, oneOf, Time } from './schema.ts'
import { EventRate, Found, NewestEvents, NotFound, RefusalFound, SearchResult, StoredEvent } from './stored.ts'
import { Type } from './typebox.ts'

const Error = Type.Object({ error: oneOf(Object.keys(PROBLEMS) as Problem[]), message: Type.String() })

export const COMPONENTS = {
  Error,
  Time,
  OptionalText,
  OptionalNumber,
  Counts,
  Session,
  Now,
  Node,
  Queue,
  Plot,
  History,
  StoredEvent,
  NewestEvents,
  SearchResult,
  Example,
  EventRate,
  Reason,
  Origin,
  Refusal,
  Refusals,
  Found,
  RefusalFound,
  NotFound,
  Window,
  MonthWindow,
  Usage,
  AppAlert,
  Alerts,
  Limit,
  Explained,
  Codes,
  AppRecord,
  ShownReadKey,
  ReadKeys,
  MadeReadKey,
  Rotated,
  OneUsage,
  UsageByDay,
}

export const PORTAL_COMPONENTS = {
  PortalError,
  Time,
  OptionalText,
  OptionalNumber,
  Counts,
  PortalSession,
  Window,
  MonthWindow,
  PortalUsage,
  UsageByDay,
  AppAlert,
  Alerts,
  PortalEvent,
  PortalEvents,
  EventRate,
  Origin,
  PortalRefusal,
  PortalRefusals,
  PortalFound,
  PortalRefusalFound,
  PortalNotFound,
  Limit,
  PortalExplained,
}
