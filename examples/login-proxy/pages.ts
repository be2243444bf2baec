/** No page of another site frames the consent page, and no script runs in it. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
};

/** A client may give itself any name: what the user can rely on is where its code goes. */
export function consentPage(about: {
  clientName: string;
  redirectUri: string;
  scopes: readonly string[];
}): string {
  const scopes = about.scopes.map((scope) => `<li>${escaped(scope)}</li>`).join('');
  return page(`<h1>Let a client in?</h1>
<p>A client that calls itself <q>${escaped(about.clientName)}</q> wants:</p><ul>${scopes}</ul>
<p>You will be sent to <b>${escaped(new URL(about.redirectUri).origin)}</b> (${escaped(about.redirectUri)}).</p>
<form method="post"><button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></form>`);
}

export const failurePage = (text: string): string =>
  page(`<h1>It did not work</h1><p>${escaped(text)}</p>`);

const page = (body: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Login</title><body>${body}</body></html>`;

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
