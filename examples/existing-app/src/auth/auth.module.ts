import { randomBytes } from 'node:crypto';
import { Body, Controller, HttpCode, Module, Post, UnauthorizedException } from '@nestjs/common';
import { JwtModule, JwtService } from '@nestjs/jwt';
import { ApiProperty } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import { Public } from './jwt.guard.js';

/** Signs the tokens; without one they end with the process. */
const JWT_SECRET = process.env['JWT_SECRET'] ?? randomBytes(32).toString('base64');

/** For trying out: of a real app, in its database, and hashed. */
const PASSWORDS = new Map([
  ['ann', 'secret of ann'],
  ['bob', 'secret of bob'],
]);

export class LoginDto {
  @ApiProperty({ example: 'ann' })
  @IsString()
  name!: string;

  @ApiProperty({ example: 'secret of ann' })
  @IsString()
  password!: string;
}

@Controller('auth')
export class AuthController {
  constructor(private readonly jwt: JwtService) {}

  @Public()
  @Post('login')
  @HttpCode(200)
  async login(@Body() { name, password }: LoginDto): Promise<{ token: string }> {
    if (PASSWORDS.get(name) !== password) throw new UnauthorizedException('No such user, or another password.');
    return { token: await this.jwt.signAsync({ sub: `user-${name}`, name }) };
  }
}

@Module({
  // Global, for the guard.
  imports: [JwtModule.register({ global: true, secret: JWT_SECRET, signOptions: { expiresIn: '1h' } })],
  controllers: [AuthController],
})
export class AuthModule {}
