/** Of the body that opens a session, `{"token": "…"}`; null: it is none. */
export function tokenIn(body: Buffer): string | null {
  try {
    const value = JSON.parse(body.toString()) as { token?: unknown } | null
    return typeof value?.token === 'string' ? value.token : null
  } catch {
    return null
  }
}
