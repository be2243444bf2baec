export function livePage(nonce: string): string { return nonce; }
