/** Pages that may call the app. */
export const ORIGINS = (process.env['ORIGINS'] ?? 'http://localhost:5173').split(',');

/** Signs the tokens; everybody who has it can make some. */
export const JWT_SECRET = process.env['JWT_SECRET'] ?? 'only for trying out, and at least 32 bytes';
