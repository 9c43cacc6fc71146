// The origin of a web page, as browsers write it in the header Origin, which is compared byte by byte.

/** null: it is no origin. */
export function toOrigin(given: string): string | null {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s*/?#@\\]+$/i.test(given) || !URL.canParse(given)) return null
  const { origin, protocol, host } = new URL(given)
  // The origin of a scheme that is not the web's own, as apps in a web view have, is `null` here, but not in Origin.
  return origin === 'null' ? `${protocol}//${host}`.toLowerCase() : origin
}
