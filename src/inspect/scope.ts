// Whose answers a credential may see, and what of an answer one app's developers are shown: nothing of nodes, stores, the
// reasons of 503s, the operator's settings, or another app.

import type { OwnGroup, Refusal, RefusalGroup, Refusals, RefusalsPiece } from '../contract/admin/refusals.ts'

/** All, or those of one app: for its own developers, or for an operator, who waits for none of them. */
export type Scope = 'all' | { readonly appId: string; readonly isOperator?: boolean }

/** They wait for no app's developers. */
export function isOfOperators(scope: Scope): scope is 'all' | { readonly appId: string; readonly isOperator: true } {
  return scope === 'all' || scope.isOperator === true
}

/** With the scope's app in place of any that was asked for. */
export function narrowed<Filter extends { readonly app: string | null; readonly portal?: true }>(
  filter: Filter,
  scope: Scope,
): Filter {
  return scope === 'all' ? filter : { ...filter, app: scope.appId, portal: true }
}

/** A 503 is one cause, whatever its reason; other reasons are told to clients, too. */
export function toldReason(refusal: Pick<Refusal, 'code' | 'reason'>): { readonly reason?: string } {
  const { code, reason } = refusal
  return code === 'service_overloaded' || reason === null ? {} : { reason }
}

export function pieceForApp(piece: RefusalsPiece): RefusalsPiece {
  return { ...piece, groups: piece.groups.map((group): OwnGroup => ({ ...group, reason: null, ...toldReason(group) })) }
}

export function refusalForApp(refusal: Refusal) {
  const { node: _, reason: __, ...shown } = refusal
  return { ...shown, ...toldReason(refusal), message: messageForApp(refusal) }
}

export function refusalsForApp({ refusals, groups, ...rest }: Refusals) {
  return { ...rest, refusals: refusals.map(refusalForApp), groups: groups.map(groupForApp) }
}

function groupForApp(group: RefusalGroup) {
  const { reason: _, ...shown } = group
  return { ...shown, ...toldReason(group), message: messageForApp(group) }
}

function messageForApp({ origin, message }: Pick<Refusal, 'origin' | 'message'>): string {
  return origin === null ? message : `pages of ${origin} may not send`
}

/** Of a live event. The first one is a member of its record: inside of a text, quotes are escaped. */
export function withoutNode(json: string): string {
  return json.replace(/,"node":(?:null|"(?:[^"\\]|\\.)*")/, '')
}
